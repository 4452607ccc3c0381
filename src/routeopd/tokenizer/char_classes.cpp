//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/char_classes.h"

#include <span>
#include <vector>

#include "routeopd/tokenizer/unicode_tables.h"

namespace routeopd::tokenizer {
namespace {

std::vector<std::uint8_t> make_classes() {
  std::vector<std::uint8_t> classes(0x110000);
  const auto mark = [&](std::span<const CodeRange> ranges, CharClass kind) {
    for (const CodeRange& range : ranges) {
      for (char32_t point = range.first; point <= range.last; ++point)
        classes[point] = static_cast<std::uint8_t>(classes[point] | kind);
    }
  };
  for (const auto letters : {category_lu(), category_ll(), category_lt(), category_lm(), category_lo()})
    mark(letters, kLetter);
  mark(category_n(), kNumber);
  mark(space(), kWhiteSpace);
  mark(word(), kWordChar);
  mark(numeric(), kNumericChar);
  mark(punctuation(), kPunctuationChar);
  return classes;
}

}  // namespace

const std::uint8_t* char_classes() {
  static const std::vector<std::uint8_t> classes = make_classes();
  return classes.data();
}

}  // namespace routeopd::tokenizer
