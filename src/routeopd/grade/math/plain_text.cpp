// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/plain_text.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "routeopd/grade/ascii.h"

namespace routeopd::grade::math {
namespace {

constexpr std::array<std::string_view, 16> kInvisible = {
    "text", "textbf", "textrm",       "textit", "mathrm", "mathbf", "mathit", "mbox",
    "left", "right",  "operatorname", "quad",   "qquad",  "big",    "Big",    "displaystyle"};

bool is_invisible(std::string_view name) {
  return std::find(kInvisible.begin(), kInvisible.end(), name) != kInvisible.end();
}

// Passes over white space, also LaTeX's.
bool skip_space(std::string_view& text) {
  const std::size_t before = text.size();
  for (;;) {
    if (!text.empty() && (is_space(text.front()) || text.front() == '~' || text.front() == '$')) {
      text.remove_prefix(1);
    } else if (text.starts_with("\\ ") || text.starts_with("\\,") || text.starts_with("\\;") ||
               text.starts_with("\\:")) {
      text.remove_prefix(2);
    } else if (text.starts_with("\\quad")) {
      text.remove_prefix(5);
    } else {
      return text.size() != before;
    }
  }
}

}  // namespace

std::string bare_text(std::string_view text) {
  std::string bare;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (is_space(c) || c == '$' || c == '{' || c == '}' || c == '~') continue;
    if (c != '\\') {
      bare += c;
      continue;
    }
    std::size_t end = at + 1;
    while (end < text.size() && is_letter(text[end])) ++end;
    const std::string_view name = text.substr(at + 1, end - at - 1);
    if (name.empty()) {  // \, \! \; \ and \{ \} \% …
      const char next = end < text.size() ? text[end] : ' ';
      const bool shown = std::string_view(" ,!;:$()[]").find(next) == std::string_view::npos;
      if (shown) bare += next;
      at = end;
      continue;
    }
    if (!is_invisible(name)) bare.append(text.substr(at, end - at));
    at = end - 1;
  }
  return bare;
}

std::optional<std::string> words_of(std::string_view text) {
  std::string words;
  for (const char c : bare_text(text)) {
    const bool other_script = static_cast<unsigned char>(c) >= 0x80;
    if (is_letter(c) || other_script) {
      words += lower(c);
    } else if (std::string_view("().,;:!?'\"-*").find(c) == std::string_view::npos) {
      return std::nullopt;
    }
  }
  if (words.empty()) return std::nullopt;
  return words;
}

std::optional<Choice> choice_of(std::string_view text) {
  text = without_outer_space(text);
  bool wrapped = false;  // in \text{…} or between brackets: then more may follow
  skip_space(text);
  for (const std::string_view command :
       {"\\textbf{", "\\text{", "\\mathrm{", "\\mathbf{", "\\textrm{", "\\mbox{"}) {
    if (!text.starts_with(command)) continue;
    text.remove_prefix(command.size());
    wrapped = true;
    break;
  }
  const bool braces = wrapped;
  skip_space(text);
  const bool bracket = text.starts_with('(');
  if (bracket) text.remove_prefix(1);
  if (text.empty() || text.front() < 'A' || text.front() > 'E') return std::nullopt;
  Choice choice{text.front(), {}};
  text.remove_prefix(1);
  const bool closed = text.starts_with(')');
  if (bracket && !closed) return std::nullopt;
  if (closed) text.remove_prefix(1);
  const bool dot = !closed && (text.starts_with('.') || text.starts_with(':'));
  if (dot) text.remove_prefix(1);
  bool gap = skip_space(text);
  if (braces) {
    if (text.starts_with('}')) {
      text.remove_prefix(1);
      gap = true;
    } else if (!gap || !(closed || dot)) {  // \text{Bob}
      return std::nullopt;
    } else {  // \text{(B) 12}
      if (text.empty() || text.find('}') != text.size() - 1) return std::nullopt;
      text.remove_suffix(1);
    }
  }
  gap |= skip_space(text);
  if (!text.empty() && !(gap && (closed || dot || braces))) return std::nullopt;
  choice.text = without_outer_space(text);
  return choice;
}

bool hedges(std::string_view after) {
  static constexpr std::array<std::string_view, 7> kTakenBack = {"not",   "wrong",  "incorrect", "false",
                                                                 "maybe", "either", "neither"};
  bool joined = false;  // the word before was "or" or "and"
  for (std::size_t at = 0; at < after.size();) {
    std::size_t end = at;
    while (end < after.size() && is_letter(after[end])) ++end;
    if (end == at) {
      ++at;
      continue;
    }
    std::string word;
    for (const char c : after.substr(at, end - at)) word += lower(c);
    const bool letter = end == at + 1 && after[at] >= 'A' && after[at] <= 'E';
    const bool bracketed =
        letter && at > 0 && after[at - 1] == '(' && end < after.size() && after[end] == ')';
    if (bracketed || (letter && joined)) return true;
    if (std::find(kTakenBack.begin(), kTakenBack.end(), word) != kTakenBack.end()) return true;
    const bool command = at > 0 && after[at - 1] == '\\';  // \text and \textbf stand between words
    if (!command) joined = word == "or" || word == "and";
    at = end;
  }
  return false;
}

}  // namespace routeopd::grade::math
