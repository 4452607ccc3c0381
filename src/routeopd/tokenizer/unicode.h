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

// A byte of CharClass bits for each code point, 1.1 MB, made once.
const std::uint8_t* char_classes();

// The classes of the character at byte `at` of valid UTF-8.
inline std::uint8_t classes_at(const std::uint8_t* classes, std::string_view text, std::size_t at) {
  return classes[code_point_at(text, at)];
}

// Whether `text` (UTF-8) has only characters that normalisation never changes and that never join another.
// Then it is its own normal form; false does not tell. Eight ASCII characters a step.
bool is_plainly_nfc(std::string_view text);

// The normal form. O(n) but for runs of marks behind one letter, which are sorted: O(n log n).
std::string nfc(std::string_view text);

}  // namespace routeopd::tokenizer
