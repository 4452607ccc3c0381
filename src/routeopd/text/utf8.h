// UTF-8, one step at a time: what is a character and what is a broken one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace routeopd::text {

struct Utf8Step {
  std::size_t length;  // bytes, at least 1
  bool valid;          // a character; else the longest beginning of one, or a byte that begins none
};

// The step at byte `at`, which is inside `bytes`.
Utf8Step utf8_step(std::string_view bytes, std::size_t at);

// The first byte that belongs to no character, npos when all do.
std::size_t find_invalid_utf8(std::string_view bytes);

// Each broken step becomes one U+FFFD, as in Rust's String::from_utf8_lossy (Unicode's "maximal subpart").
std::string lossy_utf8(std::string_view bytes);

// The character of a code point below U+0800.
std::string utf8_of(unsigned code_point);

}  // namespace routeopd::text
