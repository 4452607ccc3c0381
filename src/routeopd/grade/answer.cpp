//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/answer.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace routeopd::grade {
namespace {

constexpr std::string_view kPhrase = "final answer is";
constexpr std::string_view kBox = "\\boxed{";
constexpr std::string_view kMinusSign = "\xE2\x88\x92";  // U+2212
constexpr std::size_t kNone = std::string_view::npos;

// ASCII by hand: the functions of <cctype> ask the locale, and are undefined for negative characters.
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_letter(char c) {
  return lower(c) >= 'a' && lower(c) <= 'z';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (is_space(text.front()) || text.front() == '$')) text.remove_prefix(1);
  while (!text.empty() && (is_space(text.back()) || text.back() == '$' || text.back() == '.')) {
    text.remove_suffix(1);
  }
  return text;
}

bool phrase_begins(std::string_view text, std::size_t at) {
  for (std::size_t i = 0; i < kPhrase.size(); ++i) {
    if (lower(text[at + i]) != kPhrase[i]) return false;
  }
  const std::size_t end = at + kPhrase.size();
  return end == text.size() || !is_letter(text[end]);  // "isn't" is not "is"
}

// Where the text after the last phrase begins.
std::size_t after_last_phrase(std::string_view text) {
  if (text.size() < kPhrase.size()) return kNone;
  for (std::size_t at = text.size() - kPhrase.size() + 1; at-- > 0;) {
    if (phrase_begins(text, at)) return at + kPhrase.size();
  }
  return kNone;
}

// The content of the box that begins last, though before `limit`. Open braces are kept on a stack of our own:
// a response of nothing but braces costs memory, not the call stack.
std::optional<std::string_view> last_box(std::string_view text, std::size_t limit) {
  struct Open {
    std::size_t content;
    bool box;
  };
  std::vector<Open> open;
  std::optional<std::string_view> found;
  std::size_t found_at = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, kBox.size()) == kBox) {
      const bool counts = at < limit;
      at += kBox.size() - 1;
      open.push_back({at + 1, counts});
    } else if (text[at] == '\\') {
      // An escaped brace is text, and so is what follows "\\", unless a box was written with two backslashes.
      if (text.substr(at + 1, kBox.size()) != kBox) ++at;
    } else if (text[at] == '{') {
      open.push_back({at + 1, false});
    } else if (text[at] == '}' && !open.empty()) {
      const Open closed = open.back();
      open.pop_back();
      if (closed.box && closed.content > found_at) {
        found_at = closed.content;
        found = text.substr(closed.content, at - closed.content);
      }
    }
  }
  return found;
}

std::size_t sentence_end(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n') return at;
    if (text[at] == '.' && (at + 1 == text.size() || is_space(text[at + 1]))) return at;
  }
  return text.size();
}

std::string_view answer_after_phrase(std::string_view text) {
  const auto pass_over = [&](auto wanted) {
    while (!text.empty() && wanted(text.front())) text.remove_prefix(1);
  };
  pass_over(is_space);
  if (text.starts_with(':')) text.remove_prefix(1);
  pass_over([](char c) { return is_space(c) || c == '$'; });
  const std::size_t end = sentence_end(text);
  if (const auto box = last_box(text, end)) return trimmed(*box);
  return trimmed(text.substr(0, end));
}

std::string_view extracted_answer(std::string_view response) {
  if (const std::size_t at = after_last_phrase(response); at != kNone) {
    if (const std::string_view answer = answer_after_phrase(response.substr(at)); !answer.empty()) {
      return answer;
    }
  }
  const auto box = last_box(response, response.size());
  return box ? trimmed(*box) : std::string_view();
}

// The digits without leading zeros, or nothing if this is no whole number. Numbers of any length are told
// apart by their digits, so there is no type to overflow.
std::optional<std::string> whole_number(std::string_view text) {
  bool negative = false;
  if (text.starts_with(kMinusSign)) {
    negative = true;
    text.remove_prefix(kMinusSign.size());
  } else if (text.starts_with('-') || text.starts_with('+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const std::size_t first_comma = text.find(',');
  const bool grouped = first_comma != kNone;
  if (grouped && (first_comma < 1 || first_comma > 3 || (text.size() - first_comma) % 4 != 0)) {
    return std::nullopt;
  }
  std::string digits;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool comma_place = grouped && at >= first_comma && (at - first_comma) % 4 == 0;
    if (comma_place ? text[at] != ',' : !is_digit(text[at])) return std::nullopt;
    if (!comma_place) digits += text[at];
  }
  if (digits.empty()) return std::nullopt;
  digits.erase(0, digits.find_first_not_of('0'));  // all of them when it is zero
  if (digits.empty()) return "0";
  return negative ? "-" + digits : digits;
}

}  // namespace

std::string answer_key(std::string_view answer) {
  const std::string_view text = trimmed(answer);
  return whole_number(text).value_or(std::string(text));
}

Grade grade_response(std::string_view response, std::string_view answer) {
  Grade grade;
  grade.extracted = extracted_answer(response);
  grade.format_ok = !grade.extracted.empty();
  grade.correct = grade.format_ok && answer_key(grade.extracted) == answer_key(answer);
  return grade;
}

}  // namespace routeopd::grade
