// A regular expression that cuts text into words, run by Oniguruma as in Hugging Face's `tokenizers`. The
// pattern comes with a model, so it is untrusted: its search is bounded in steps and in memory.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

struct re_pattern_buffer;  // Oniguruma's compiled expression

namespace routeopd::text {

class SplitPattern {
 public:
  // Throws UserError when it is no regular expression.
  explicit SplitPattern(std::string_view pattern);

  // Appends the matches and what lies between them, each a piece of its own, none empty. `text` is UTF-8.
  // Throws UserError when the search takes too long. Threads may share one pattern.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  std::unique_ptr<re_pattern_buffer, void (*)(re_pattern_buffer*)> regex_;
};

}  // namespace routeopd::text
