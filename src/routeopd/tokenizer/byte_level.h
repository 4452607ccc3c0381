// GPT-2's spelling of bytes as visible characters: 188 printable bytes of Latin-1 stand for themselves, the
// other 68 are U+0100 and the following ones, in order. A space is "Ġ", a line feed "Ċ".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace routeopd::tokenizer {

// The character of each byte, in UTF-8.
const std::array<std::string, 256>& byte_symbols();

// Bytes as a vocabulary spells them.
std::string spelled(std::string_view bytes);

// Appends the bytes that a spelling (UTF-8) stands for. Returns false and appends nothing if it has a
// character outside the alphabet.
bool append_unspelled(std::string_view token, std::string& bytes);

// Appends the bytes that a token stands for. A token with a character outside the alphabet, such as an added
// one with a space, stands for its own bytes, as in `tokenizers`.
void append_bytes_of(std::string_view token, std::string& bytes);

}  // namespace routeopd::tokenizer
