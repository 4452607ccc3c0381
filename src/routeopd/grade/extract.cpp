// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/parser.h"
#include "routeopd/grade/math/words.h"

namespace routeopd::grade {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kThinkEnd = "</think>";

struct Box {
  std::size_t begin;  // of the command
  std::size_t end;    // after the closing brace
  std::string_view content;
};

// Characters of "\boxed", "\fbox" and the white space and brace behind it, 0 where no box begins.
std::size_t box_opening(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  std::size_t length = 0;
  if (rest.starts_with("\\boxed")) length = 6;
  if (rest.starts_with("\\fbox")) length = 5;
  if (length == 0) return 0;
  while (length < rest.size() && is_space(rest[length])) ++length;
  return length < rest.size() && rest[length] == '{' ? length + 1 : 0;
}

// \boxed 5 and \boxed5: one token without braces, a number whole.
std::optional<Box> unbraced_box(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (!rest.starts_with("\\boxed")) return std::nullopt;
  std::size_t first = 6;
  while (first < rest.size() && is_space(rest[first])) ++first;
  std::size_t end = first;
  while (end < rest.size() && (is_digit(rest[end]) || (end == first && rest[end] == '-'))) ++end;
  if (end == first || (end == first + 1 && rest[first] == '-')) return std::nullopt;
  return Box{at, at + end, rest.substr(first, end - first)};
}

// All boxes, in the order in which they end. Open braces are kept on a stack of our own: a response of nothing
// but braces costs memory, not the call stack. \{ and \} are text, not braces.
std::vector<Box> boxes_in(std::string_view text) {
  struct Open {
    std::size_t begin;
    std::size_t content;
    bool box;
  };
  std::vector<Open> open;
  std::vector<Box> boxes;
  if (text.find("\\boxed") == kNone && text.find("\\fbox") == kNone) return boxes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (const std::size_t opening = box_opening(text, at); opening > 0) {
      open.push_back({at, at + opening, true});
      at += opening - 1;
    } else if (const auto box = text[at] == '\\' ? unbraced_box(text, at) : std::nullopt) {
      boxes.push_back(*box);
      at = box->end - 1;
    } else if (text[at] == '\\') {
      // An escaped brace is text, and so is what follows "\\", unless a box was written with two backslashes.
      if (box_opening(text, at + 1) == 0) ++at;
    } else if (text[at] == '{') {
      open.push_back({at, at + 1, false});
    } else if (text[at] == '}' && !open.empty()) {
      const Open closed = open.back();
      open.pop_back();
      if (closed.box)
        boxes.push_back({closed.begin, at + 1, text.substr(closed.content, at - closed.content)});
    }
  }
  return boxes;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Whether what stands between two boxes only joins them: "$ and $", ", \text{ or }".
bool only_joins(std::string_view between) {
  static constexpr std::array<std::string_view, 17> kJoints = {"\\text", "\\quad", "\\ ", "\\,", "\\;", "\\(",
                                                               "\\)",    "\\[",    "\\]", "and", "or",  "{",
                                                               "}",      "$",      ",",   ";",   "&"};
  bool joined = false;
  while (!between.empty()) {
    if (is_space(between.front())) {
      between.remove_prefix(1);
      continue;
    }
    const std::string_view before = between;
    if (std::none_of(kJoints.begin(), kJoints.end(),
                     [&](std::string_view joint) { return take(between, joint); })) {
      return false;
    }
    joined |= std::string_view("ao,;&").find(before.front()) != kNone;
  }
  return joined;
}

// The boxed answer that begins last, joined with the boxes before it that belong to it.
std::string boxed_answer(std::string_view text) {
  std::vector<Box> boxes = boxes_in(text);
  if (boxes.empty()) return {};
  std::sort(boxes.begin(), boxes.end(),
            [](const Box& left, const Box& right) { return left.begin < right.begin; });
  std::string answer(trimmed(boxes.back().content));
  for (std::size_t last = boxes.size() - 1; last > 0; --last) {
    const Box& before = boxes[last - 1];
    const std::size_t gap_end = boxes[last].begin;
    constexpr std::size_t kWidestGap = 40;
    if (before.end > gap_end || gap_end - before.end > kWidestGap) break;
    if (!only_joins(text.substr(before.end, gap_end - before.end))) break;
    answer = fmt::format("{}, {}", trimmed(before.content), answer);
    if (answer.size() > math::kLongestMath) break;
  }
  return answer;
}

bool matches(std::string_view text, std::size_t at, std::string_view lowered) {
  if (text.size() - at < lowered.size()) return false;
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    if (lower(text[at + i]) != lowered[i]) return false;
  }
  return true;
}

// Where the text after the last phrase begins: `words`, then "is", a colon, or (of a heading) the end of the line; ** is
// allowed before and after it.
std::size_t after_last_phrase(std::string_view text, std::string_view words, bool heading) {
  if (text.size() < words.size()) return kNone;
  for (std::size_t at = text.size() - words.size() + 1; at-- > 0;) {
    if (lower(text[at]) != words.front() || !matches(text, at, words)) continue;
    if (at > 0 && is_letter(text[at - 1])) continue;
    std::string_view rest = text.substr(at + words.size());
    while (take(rest, "*") || take(rest, " ")) {
    }
    const bool is = rest.size() >= 2 && lower(rest[0]) == 'i' && lower(rest[1]) == 's' &&
                    (rest.size() == 2 || (!is_letter(rest[2]) && rest[2] != '\''));  // "isn't" is not "is"
    if (is) {
      rest.remove_prefix(2);
    } else if (!take(rest, ":") && !(heading && (rest.starts_with('\n') || rest.starts_with('\r')))) {
      continue;
    }
    return text.size() - rest.size();
  }
  return kNone;
}

std::size_t sentence_end(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n') return at;
    if (text[at] == '.' && (at + 1 == text.size() || is_space(text[at + 1]))) return at;
  }
  return text.size();
}

// The mathematics between the delimiters that open here, nothing if none do or they are not closed.
std::optional<std::string_view> delimited(std::string_view text) {
  struct Pair {
    std::string_view open;
    std::string_view close;
  };
  for (const Pair& pair : {Pair{"$$", "$$"}, Pair{"\\[", "\\]"}, Pair{"\\(", "\\)"}, Pair{"$", "$"}}) {
    if (!text.starts_with(pair.open)) continue;
    const std::string_view inside = text.substr(pair.open.size());
    std::size_t end = inside.find(pair.close);
    while (end != kNone && end > 0 && inside[end - 1] == '\\' && pair.close == "$")
      end = inside.find('$', end + 1);
    if (end == kNone) return std::nullopt;
    if (pair.open == "$" && inside.substr(0, end).find('\n') != kNone) return std::nullopt;
    return inside.substr(0, end);
  }
  return std::nullopt;
}

// Whether a text is an answer in numbers or symbols rather than in words. "as above" could be read as a product
// of letters, so there must be a digit or a sign, or hardly anything at all.
bool is_mathematics(std::string_view text) {
  const bool signs =
      text.find_first_of("0123456789\\=+-*/^|<>") != kNone || text.size() <= 2 ||
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

// "$3$ or $4$", "$10$%": whether the answer goes on behind mathematics between delimiters.
bool goes_on(std::string_view rest) {
  while (!rest.empty() && (is_space(rest.front()) || rest.front() == '$')) rest.remove_prefix(1);
  if (take(rest, "%") || take(rest, "\\%")) return true;
  return (take(rest, "and") || take(rest, "or") || take(rest, ",")) && rest.find_first_of("$\\") != kNone;
}

// Whether a sentence has words that belong to no answer: three letters or more, and no unit, function or number.
bool has_words(std::string_view sentence) {
  for (std::size_t at = 0; at < sentence.size();) {
    std::size_t end = at;
    while (end < sentence.size() && is_letter(sentence[end])) ++end;
    const bool command = at > 0 && sentence[at - 1] == '\\';
    if (end - at > 2 && !command) {
      const std::string word = lower_case(sentence.substr(at, end - at));
      if (!math::is_unit(word) && !math::is_function(word) && !math::is_conjunction(word) &&
          !math::is_percent(word) && !math::is_degree(word) && !math::power_of_ten(word) &&
          !math::small_number(word)) {
        return true;
      }
    }
    at = std::max(end, at + 1);
  }
  return false;
}

// The longest beginning of a sentence, of its first dozen words, that is mathematics: of "42, since 6*7=42" it is 42. It
// needs a digit, a command or to be a choice, for any word may begin like a product of letters.
std::string mathematics_at_the_beginning(std::string_view sentence) {
  constexpr int kMostWords = 12;
  constexpr std::string_view kCuts = " ,;:(";
  sentence = sentence.substr(0, math::kLongestMath);
  std::string_view found;
  std::size_t end = 0;
  for (int words = 0; words < kMostWords && end < sentence.size(); ++words) {
    end = std::min(sentence.find_first_of(kCuts, end + 1), sentence.size());
    const std::string_view part = trimmed(sentence.substr(0, end));
    const bool choice = part.size() == 1 && part.front() >= 'A' && part.front() <= 'E';
    const bool telling =
        std::any_of(part.begin(), part.end(), [](char c) { return is_digit(c) || c == '\\'; });
    const std::string_view last = part.substr(part.find_last_of(kCuts) + 1);
    const bool word = last.size() > 1 && std::all_of(last.begin(), last.end(), is_letter);
    if (choice || (telling && !word && is_mathematics(part))) found = part;
  }
  return std::string(found);
}

std::string answer_after_phrase(std::string_view text) {
  const auto pass_over = [&] {
    while (!text.empty() && (is_space(text.front()) || text.front() == '*' || text.front() == '#')) {
      text.remove_prefix(1);
    }
  };
  pass_over();
  if (take(text, ":")) pass_over();
  for (const std::string_view word : {"therefore", "thus", "simply", "just", "equal to", "given by"}) {
    const bool whole =
        matches(text, 0, word) && (text.size() == word.size() || !is_letter(text[word.size()]));
    if (!whole) continue;
    text.remove_prefix(word.size());
    pass_over();
    if (take(text, ":") || take(text, ",")) pass_over();
  }
  const std::string_view sentence = text.substr(0, sentence_end(text));
  const std::optional<std::string_view> inside = delimited(text);
  // A box may end after the sentence or the line in which it begins.
  const std::string_view reach =
      inside ? text.substr(0, std::max(inside->size() + 4, sentence.size())) : sentence;
  for (const std::string_view command : {std::string_view("\\boxed"), std::string_view("\\fbox")}) {
    if (reach.find(command) == kNone) continue;
    std::vector<Box> boxes = boxes_in(text);
    std::erase_if(boxes, [&](const Box& box) { return box.begin >= reach.size(); });
    if (boxes.empty()) return {};
    std::size_t end = 0;
    for (const Box& box : boxes) end = std::max(end, box.end);
    return boxed_answer(text.substr(0, end));
  }
  const std::string_view whole = trimmed(sentence);
  if (!inside || trimmed(*inside).empty()) {
    if (is_mathematics(whole) && !has_words(whole)) return std::string(whole);
    std::string first = mathematics_at_the_beginning(sentence);
    return first.empty() ? std::string(whole) : first;
  }
  const auto end = static_cast<std::size_t>(inside->data() + inside->size() - text.data());
  const bool more = end < sentence.size() && goes_on(sentence.substr(end)) && is_mathematics(whole);
  return std::string(more ? whole : trimmed(*inside));
}

// Where `mark` stands last, counted from 1; 0 where it does not.
std::size_t last_at(std::string_view text, std::string_view mark) {
  return text.rfind(mark) + 1;  // npos + 1 is 0
}

struct PhraseAnswer {
  std::size_t at = kNone;  // behind the phrase
  std::string text;
  bool mathematics = false;
};

PhraseAnswer answer_after(std::string_view text, std::string_view words, bool heading) {
  PhraseAnswer answer{after_last_phrase(text, words, heading), {}, false};
  if (answer.at == kNone) return answer;
  answer.text = answer_after_phrase(text.substr(answer.at));
  answer.mathematics = !answer.text.empty() && is_mathematics(answer.text);
  return answer;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto starts = [&](std::string_view mark) { return text.starts_with(mark); };
  const auto ends = [&](std::string_view mark) { return text.ends_with(mark); };
  for (;;) {
    const std::size_t before = text.size();
    while (!text.empty() && (is_space(text.front()) || text.front() == '$')) text.remove_prefix(1);
    if (starts("**") || starts("\\(") || starts("\\[") || starts("\\ ") || starts("\\,"))
      text.remove_prefix(2);
    while (!text.empty()) {
      const char last = text.back();
      const bool escaped = text.size() > 1 && text[text.size() - 2] == '\\';
      if (escaped ? last != ' ' : !(is_space(last) || last == '$' || last == '.' || last == ',')) break;
      text.remove_suffix(escaped ? 2 : 1);
    }
    if (ends("**") || ends("\\)") || ends("\\]") || ends("\\ ") || ends("\\,")) text.remove_suffix(2);
    if (text.size() == before) return text;
  }
}

std::string extracted_answer(std::string_view response) {
  if (const std::size_t think = response.rfind(kThinkEnd); think != kNone) {
    response.remove_prefix(think + kThinkEnd.size());
  }
  const PhraseAnswer final_answer = answer_after(response, "final answer", true);
  const std::size_t box = std::max(last_at(response, "\\boxed"), last_at(response, "\\fbox"));
  if (final_answer.mathematics && box <= final_answer.at) return final_answer.text;
  if (std::string boxed = boxed_answer(response); !boxed.empty()) return boxed;
  if (final_answer.mathematics) return final_answer.text;
  const PhraseAnswer answer = answer_after(response, "answer", false);
  if (answer.mathematics || final_answer.text.empty()) return answer.text;
  return final_answer.text;
}

}  // namespace routeopd::grade
