// Code points as Python's str sees them: their classes and their cases, exact for the Unicode of Python 3.11.
// Every function but is_utf8 takes valid UTF-8 for granted; texts are checked where they come in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace routeopd::text::jinja {

bool is_utf8(std::string_view bytes);  // no surrogates, no overlong forms, at most U+10FFFF

std::int64_t count_code_points(std::string_view text);

// The code point at byte `at`, which moves behind it.
char32_t next_code_point(std::string_view text, std::size_t& at);
// The code point that ends before byte `end`, which moves to its first byte.
char32_t previous_code_point(std::string_view text, std::size_t& end);
void append_code_point(std::string& text, char32_t point);

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

}  // namespace routeopd::text::jinja
