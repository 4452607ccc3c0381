// Text by hand: ASCII without <cctype>, whose functions ask the locale and are undefined for negative
// characters, and the ends of an answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::grade {

constexpr bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr bool is_letter(char c) {
  return lower(c) >= 'a' && lower(c) <= 'z';
}

inline std::string lower_case(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = lower(c);
  return lowered;
}

// Whether `text` holds `lowered` at `at`, in upper or lower case.
constexpr bool matches(std::string_view text, std::size_t at, std::string_view lowered) {
  if (text.size() - at < lowered.size()) return false;
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    if (lower(text[at + i]) != lowered[i]) return false;
  }
  return true;
}

// Removes `prefix` where the text begins with it.
constexpr bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

constexpr std::string_view without_outer_space(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Without white space, $, ** and \( \) \[ \] around it, and without points and commas at its end.
constexpr std::string_view trimmed(std::string_view text) {
  for (;;) {
    const std::size_t before = text.size();
    while (!text.empty() && (is_space(text.front()) || text.front() == '$')) text.remove_prefix(1);
    for (const std::string_view mark : {"**", "\\(", "\\[", "\\ ", "\\,"}) {
      if (take(text, mark)) break;
    }
    while (!text.empty()) {
      const char last = text.back();
      const bool escaped = text.size() > 1 && text[text.size() - 2] == '\\';
      if (escaped ? last != ' ' : !(is_space(last) || last == '$' || last == '.' || last == ',')) break;
      text.remove_suffix(escaped ? 2 : 1);
    }
    for (const std::string_view mark : {"**", "\\)", "\\]", "\\ ", "\\,"}) {
      if (!text.ends_with(mark)) continue;
      text.remove_suffix(mark.size());
      break;
    }
    if (text.size() == before) return text;
  }
}

}  // namespace routeopd::grade
