// What kind of character a code point is, in one table lookup.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "routeopd/base/utf8.h"

namespace routeopd::tokenizer {

enum CharClass : std::uint8_t {
  kLetter = 1,        // \p{L}
  kNumber = 2,        // \p{N}
  kWhiteSpace = 4,    // \s
  kWordChar = 8,      // \w of Rust's regex crate
  kNumericChar = 16,  // Rust's char::is_numeric
  kPunctuationChar = 32,
};

// A byte of CharClass bits for each code point, 1.1 MB, made once.
const std::uint8_t* char_classes();

// The classes of the character at byte `at` of valid UTF-8.
inline std::uint8_t classes_at(const std::uint8_t* classes, std::string_view text, std::size_t at) {
  return classes[code_point_at(text, at)];
}

}  // namespace routeopd::tokenizer
