// A pattern that cuts text: a regular expression run by Oniguruma as in Hugging Face's `tokenizers`, or a
// plain string. Patterns come with models and are untrusted: a search is bounded in steps and in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/tokenizer/word_matcher.h"

struct re_pattern_buffer;  // Oniguruma's compiled expression

namespace routeopd::tokenizer {

// A part of the text: a match, or what lies between two matches.
struct Cut {
  std::size_t begin;
  std::size_t end;
  bool match;
};

class SplitPattern {
 public:
  enum class Engine { fastest, reference };

  // Throws UserError if it is no regular expression. \p{L} and the other common categories mean what they
  // mean to `tokenizers`, whatever Unicode version this system's Oniguruma has. Engine::reference uses
  // Oniguruma even where there is a faster matcher.
  static SplitPattern regex(std::string_view expression, Engine engine = Engine::fastest);

  // Throws UserError when it is empty.
  static SplitPattern plain(std::string_view words);

  // {"String": …} or {"Regex": …}. Throws UserError for anything else.
  static SplitPattern read(const Json& pattern);

  // The known pattern that is matched by hand (word_matcher.h), or none.
  KnownPattern known() const { return known_; }
  const std::string& plain_words() const { return words_; }  // empty for an expression

  // Appends the matches and the text between them, which together cover `text` (UTF-8). Matches may be empty.
  // Throws UserError when the search takes too long. Threads may share one pattern.
  void cut(std::string_view text, std::vector<Cut>& cuts) const;

 private:
  SplitPattern();
  void cut_plain(std::string_view text, std::vector<Cut>& cuts) const;
  void cut_regex(std::string_view text, std::vector<Cut>& cuts) const;

  KnownPattern known_ = KnownPattern::none;
  std::string words_;
  std::unique_ptr<re_pattern_buffer, void (*)(re_pattern_buffer*)> regex_;
};

}  // namespace routeopd::tokenizer
