// Numbers and string literals as Python and Jinja read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace routeopd::jinja {

constexpr bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// Python's int() and float(): whitespace around the number and underscores between its digits are allowed. nullopt where
// Python raises ValueError. parsed_integer() throws UserError from 2^63 on; base 0 follows the prefix 0x, 0o or 0b.
std::optional<std::int64_t> parsed_integer(std::string_view text, std::int64_t base);
std::optional<double> parsed_float(std::string_view text);

// What stands between the quotes of a string literal, unescaped as Jinja does: unknown escapes stay as they are. Throws
// UserError for a broken \x, \u or \U, for \N{…} and for a surrogate.
std::string unescaped(std::string_view body);

}  // namespace routeopd::jinja
