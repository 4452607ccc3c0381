// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/phrases.h"

#include <algorithm>
#include <optional>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/boxes.h"
#include "routeopd/grade/math/words.h"
#include "routeopd/grade/readable.h"

namespace routeopd::grade {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;
// Phrases that are tried, from the last one back: each costs a look at what follows it.
constexpr int kMostPhrases = 4;

bool begins_with_word(std::string_view text, std::string_view word) {
  return matches(text, 0, word) && (text.size() == word.size() || !is_letter(text[word.size()]));
}

// Whether "is" or the like makes a phrase of the words before
// it; then `rest` is what follows. "isn't" is not "is".
bool take_verb(std::string_view& rest, bool heading) {
  while (take(rest, "*") || take(rest, " ")) {
  }
  if (begins_with_word(rest, "is") && !(rest.size() > 2 && rest[2] == '\'')) {
    rest.remove_prefix(2);
    const std::string_view next = without_outer_space(rest.substr(0, 16));
    return !begins_with_word(next, "not") && !begins_with_word(next, "never");
  }
  return take(rest, ":") || (heading && (rest.starts_with('\n') || rest.starts_with('\r')));
}

// Where the text after the last phrase that begins before `end` begins, and `end` is where that phrase does.
std::size_t after_phrase(std::string_view text, Phrase phrase, std::size_t& end) {
  const bool heading = phrase == Phrase::kFinalAnswer;
  const std::string_view words = heading ? "final answer" : "answer";
  for (std::size_t at = end; at-- > 0;) {
    if (lower(text[at]) != words.front() || !matches(text, at, words)) continue;
    if (at > 0 && is_letter(text[at - 1])) continue;
    std::string_view rest = text.substr(at + words.size());
    if (!take_verb(rest, heading)) continue;
    end = at;
    return text.size() - rest.size();
  }
  return kNowhere;
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
    while (end != kNowhere && end > 0 && inside[end - 1] == '\\' && pair.close == "$")
      end = inside.find('$', end + 1);
    if (end == kNowhere) return std::nullopt;
    if (pair.open == "$" && inside.substr(0, end).find('\n') != kNowhere) return std::nullopt;
    return inside.substr(0, end);
  }
  return std::nullopt;
}

// "$3$ or $4$", "$10$%": whether the answer continues after mathematics between delimiters.
bool continues(std::string_view rest) {
  while (!rest.empty() && (is_space(rest.front()) || rest.front() == '$')) rest.remove_prefix(1);
  if (take(rest, "%") || take(rest, "\\%")) return true;
  return (take(rest, "and") || take(rest, "or") || take(rest, ",")) && rest.find_first_of("$\\") != kNowhere;
}

// Whether a sentence has words that belong to no answer: three
// letters or more, and no unit, function or number.
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

// The words that a sentence begins with: a choice alone, or all of it up to its reason.
std::string_view leading_words(std::string_view sentence) {
  const std::string_view first = trimmed(sentence.substr(0, sentence.find_first_of(" ,;:(")));
  if (first.size() == 1 && first.front() >= 'A' && first.front() <= 'E') return first;
  for (std::size_t at = sentence.find(' '); at != kNowhere; at = sentence.find(' ', at + 1)) {
    const std::string_view rest = sentence.substr(at + 1);
    if (begins_with_word(rest, "because") || begins_with_word(rest, "since"))
      return trimmed(sentence.substr(0, at));
  }
  return sentence;
}

// Removes what may stand between a phrase and its answer.
void skip_to_answer(std::string_view& text) {
  const auto skip_marks = [&] {
    while (!text.empty() && (is_space(text.front()) || text.front() == '*' || text.front() == '#')) {
      text.remove_prefix(1);
    }
  };
  skip_marks();
  if (take(text, ":")) skip_marks();
  for (const std::string_view word : {"therefore", "thus", "simply", "just", "equal to", "given by"}) {
    if (!begins_with_word(text, word)) continue;
    text.remove_prefix(word.size());
    skip_marks();
    if (take(text, ":") || take(text, ",")) skip_marks();
  }
}

std::string answer_at(std::string_view text) {
  skip_to_answer(text);
  const std::string_view sentence = text.substr(0, sentence_end(text));
  const std::optional<std::string_view> inside = delimited(text);
  // A box may end after the sentence or the line in which it begins.
  const std::string_view reach =
      inside ? text.substr(0, std::max(inside->size() + 4, sentence.size())) : sentence;
  if (last_box(reach) > 0) return boxed_answer(text, reach.size());
  const std::string_view whole = trimmed(sentence);
  if (!inside || trimmed(*inside).empty()) {
    if (is_mathematics(whole) && !has_words(whole)) return std::string(whole);
    const std::string_view first = leading_mathematics(sentence);
    return std::string(first.empty() ? leading_words(whole) : first);
  }
  const auto end = static_cast<std::size_t>(inside->data() + inside->size() - text.data());
  const bool more = end < sentence.size() && continues(sentence.substr(end)) && is_mathematics(whole);
  return std::string(more ? whole : trimmed(*inside));
}

}  // namespace

PhraseAnswer answer_after(std::string_view text, Phrase phrase) {
  PhraseAnswer last;
  std::size_t end = text.size();
  for (int tried = 0; tried < kMostPhrases; ++tried) {
    PhraseAnswer answer{.at = after_phrase(text, phrase, end)};
    if (answer.at == kNowhere) break;
    answer.text = answer_at(text.substr(answer.at));
    answer.mathematics = !answer.text.empty() && is_mathematics(answer.text);
    // "I hope that the final answer is right" speaks of an answer,
    // where "right" in a box would be a direction.
    answer.readable = is_readable(answer.text) && lower_case(answer.text) != "right";
    if (answer.readable) return answer;
    if (tried == 0) last = std::move(answer);
  }
  return last;
}

}  // namespace routeopd::grade
