// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/readable.h"

#include <algorithm>
#include <array>
#include <string>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/parser.h"
#include "routeopd/grade/math/plain_text.h"

namespace routeopd::grade {
namespace {

// Words of sentences about an answer, which no known answer has. Sorted.
constexpr std::array<std::string_view, 81> kAboutAnswers = {
    "above",    "according", "actually",  "also",     "answer",    "answers", "as",        "asked",
    "based",    "because",   "believe",   "below",    "check",     "clear",   "clearly",   "contradicts",
    "correct",  "could",     "desired",   "expected", "following", "follows", "form",      "found",
    "given",    "guess",     "hence",     "here",     "hmm",       "how",     "incorrect", "indeed",
    "know",     "let",       "likely",    "maybe",    "me",        "meant",   "might",     "must",
    "my",       "needed",    "obtained",  "obvious",  "obviously", "our",     "perhaps",   "possibly",
    "probably", "problem",   "question",  "required", "see",       "should",  "since",     "so",
    "sorry",    "sure",      "therefore", "these",    "think",     "this",    "those",     "thus",
    "too",      "uncertain", "unclear",   "unknown",  "unsure",    "wait",    "we",        "what",
    "where",    "whether",   "which",     "who",      "why",       "would",   "wrong",     "you",
    "your"};
static_assert(std::is_sorted(kAboutAnswers.begin(), kAboutAnswers.end()));

// A longer run of letters may hold any number of words: some scripts put no spaces between them.
constexpr std::size_t kLongestWord = 40;  // bytes

bool is_letter_of_any_script(char c) {
  return is_letter(c) || static_cast<unsigned char>(c) >= 0x80;
}

// Where a command that begins at `at` ends, with the environment's name after \begin and \end.
std::size_t command_end(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && is_letter(text[end])) ++end;
  const std::string_view name = text.substr(at + 1, end - at - 1);
  if (name.empty()) return std::min(end + 1, text.size());  // \{ and \\ are no braces and no letters
  if (name != "begin" && name != "end") return end;
  if (end == text.size() || text[end] != '{') return end;
  const std::size_t close = text.find('}', end);
  return close == std::string_view::npos ? end : close + 1;
}

bool is_short_phrase(std::string_view text) {
  std::size_t words = 0;
  int open = 0;
  bool says = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\\') {
      at = command_end(text, at);
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_letter_of_any_script(text[end])) ++end;
    says = says || end > at || is_digit(c);
    if (end - at > 1) {  // one letter is a variable
      if (end - at > kLongestWord || ++words > kMostPhraseWords) return false;
      const std::string word = lower_case(text.substr(at, end - at));
      if (std::binary_search(kAboutAnswers.begin(), kAboutAnswers.end(), std::string_view(word)))
        return false;
    }
    open += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (open < 0) return false;
    at = std::max(end, at + 1);
  }
  return says && open == 0;
}

}  // namespace

bool is_mathematics(std::string_view text) {
  const bool signs =
      text.find_first_of("0123456789\\=+-*/^|<>") != std::string_view::npos || text.size() <= 2 ||
      std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (!signs) return false;
  try {
    const math::Node tree = parsed(math::tokens_of(text, math::Commas::kUsual));
    const bool relation = tree.kind == math::Kind::kRelation;  // \text{Area} = 5
    return !contains(relation ? tree.parts.back() : tree, math::Kind::kText);
  } catch (const math::Unreadable&) {
    return false;
  }
}

std::string_view leading_mathematics(std::string_view text) {
  constexpr int kMostWords = 12;
  constexpr std::string_view kCuts = " ,;:(";
  text = text.substr(0, math::kLongestMath);
  std::string_view found;
  std::size_t end = 0;
  for (int words = 0; words < kMostWords && end < text.size(); ++words) {
    end = std::min(text.find_first_of(kCuts, end + 1), text.size());
    const std::string_view part = trimmed(text.substr(0, end));
    const bool telling =
        std::any_of(part.begin(), part.end(), [](char c) { return is_digit(c) || c == '\\'; });
    const std::string_view last = part.substr(part.find_last_of(kCuts) + 1);
    const bool word = last.size() > 1 && std::all_of(last.begin(), last.end(), is_letter);
    if (telling && !word && is_mathematics(part)) found = part;
  }
  return found;
}

bool is_readable(std::string_view text) {
  return math::choice_of(text).has_value() || is_mathematics(text) || !leading_mathematics(text).empty() ||
         is_short_phrase(text);
}

}  // namespace routeopd::grade
