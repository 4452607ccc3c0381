// Code points as Python's str sees them: their classes and cases, exact for Python 3.11 (Unicode 14.0). All
// text is valid UTF-8: callers check it where it enters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::python {

bool is_space(char32_t point);
bool is_printable(char32_t point);
bool is_alpha(char32_t point);
bool is_decimal(char32_t point);
bool is_digit(char32_t point);
bool is_numeric(char32_t point);
bool is_upper(char32_t point);
bool is_lower(char32_t point);
bool is_cased(char32_t point);

// str.upper(), str.lower(), str.title(), str.capitalize(), str.swapcase().
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);
std::string to_capitalized(std::string_view text);
std::string to_swapped(std::string_view text);

// str.isupper(), str.islower(), str.istitle().
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);
bool is_title_text(std::string_view text);

// The text without whitespace at its ends.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

}  // namespace routeopd::python
