// "normalizer" of tokenizer.json: what changes text before it is cut into words. NFC, Prepend, Replace, Strip
// and sequences of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/tokenizer/split_pattern.h"

namespace routeopd::tokenizer {

class Normalizer {
 public:
  // Null for none. Throws UserError naming the component that is wrong or not supported.
  explicit Normalizer(const Json& component);

  // The normal form of `text` (UTF-8): a view of `text` itself where nothing changes, else of `storage`.
  // Throws UserError when the text would grow beyond bounds.
  std::string_view normalized(std::string_view text, std::string& storage) const;

  // Whether the first character may be deleted.
  bool may_delete() const { return may_delete_; }

  // "NFC", or "".
  std::string description() const;

 private:
  struct Nfc {};
  struct Prepend {
    std::string words;
  };
  struct Replace {
    SplitPattern pattern;
    std::string content;
  };
  struct Strip {
    bool left;
    bool right;
  };
  using Step = std::variant<Nfc, Prepend, Replace, Strip>;

  void read(const Json& component);
  static bool apply(const Step& step, std::string_view text, std::string& result);

  std::vector<Step> steps_;
  bool may_delete_ = false;
};

}  // namespace routeopd::tokenizer
