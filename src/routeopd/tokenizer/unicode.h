// Unicode as Hugging Face's `tokenizers` sees it: the classes of characters, and the normal form NFC.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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

// One byte of CharClass bits per code point, 1.1 MB, computed once.
const std::uint8_t* char_classes();

// The classes of the character at byte `at` of valid UTF-8.
inline std::uint8_t classes_at(const std::uint8_t* classes, std::string_view text, std::size_t at) {
  return classes[code_point_at(text, at)];
}

// Whether `text` (UTF-8) has only characters that normalization never changes or joins, so that it is its own
// normal form. False decides nothing. ASCII is checked eight characters at a time.
bool is_plainly_nfc(std::string_view text);

// Normalization form C (UAX #15) with the tables of `tokenizers`, which does not reorder marks newer than
// Unicode 9. O(n), except that runs of marks after one letter are sorted: O(n log n).
std::string nfc(std::string_view text);

}  // namespace routeopd::tokenizer
