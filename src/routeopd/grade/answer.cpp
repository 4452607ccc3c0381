// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/answer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/boxes.h"
#include "routeopd/grade/math/equivalence.h"
#include "routeopd/grade/math/normal_form.h"
#include "routeopd/grade/math/parser.h"
#include "routeopd/grade/math/plain_text.h"
#include "routeopd/grade/phrases.h"
#include "routeopd/grade/readable.h"

namespace routeopd::grade {
namespace {

using math::Budget;
using math::Commas;
using math::Node;

// The digits of a whole number without leading zeros, of any length: what is too long for the parser can
// still be compared.
std::optional<std::string> whole_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    if (!is_digit(c)) return std::nullopt;
  }
  while (text.size() > 1 && text.front() == '0') text.remove_prefix(1);
  return fmt::format("{}{}", negative && text != "0" ? "-" : "", text);
}

constexpr std::string_view kThinkBegin = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

std::string_view outside_of_thoughts(std::string_view response, bool in_thought) {
  if (const std::size_t end = response.rfind(kThinkEnd); end != std::string_view::npos) {
    response.remove_prefix(end + kThinkEnd.size());
  } else if (in_thought) {
    return {};
  }
  return response.substr(0, response.find(kThinkBegin));
}

}  // namespace

bool opens_thought(std::string_view prompt) {
  return without_outer_space(prompt).ends_with(kThinkBegin);
}

Extracted extracted_answer(std::string_view response, bool in_thought) {
  response = outside_of_thoughts(response, in_thought);
  PhraseAnswer final_answer = answer_after(response, Phrase::kFinalAnswer);
  if (final_answer.mathematics && last_box(response) <= final_answer.at)
    return {std::move(final_answer.text), true};
  std::string boxed = boxed_answer(response);
  if (!boxed.empty() && is_readable(boxed)) return {std::move(boxed), true};
  if (final_answer.mathematics) return {std::move(final_answer.text), true};
  PhraseAnswer answer = answer_after(response, Phrase::kAnswer);
  if (answer.readable && (answer.mathematics || !final_answer.readable))
    return {std::move(answer.text), true};
  if (final_answer.readable) return {std::move(final_answer.text), true};
  for (std::string* text : {&boxed, &final_answer.text, &answer.text}) {
    if (!text->empty()) return {std::move(*text), false};
  }
  return {};
}

struct Answer::Reading {
  std::string text;                    // trimmed
  std::optional<Node> tree;            // nothing where the text is no mathematics
  std::optional<Node> other_tree;      // with commas read the other way
  std::optional<math::Choice> choice;  // its text points into `text`
  std::string key;
};

Answer::Answer(std::string_view text) {
  const auto reading = std::make_shared<Reading>();
  reading->text = trimmed(text);
  try {
    math::Tokens tokens = math::tokens_of(reading->text, Commas::kUsual);
    const bool ambiguous = tokens.ambiguous_commas;
    if (ambiguous) {
      try {
        reading->other_tree = parsed(math::tokens_of(reading->text, Commas::kTurned));
      } catch (const math::Unreadable&) {
      }
    }
    reading->tree = parsed(std::move(tokens));
    // A number may turn out to be a list, but a pair is no number: (1,234).
    const auto& other = reading->other_tree;
    if (other && reading->tree->kind != math::Kind::kNumber && reading->tree->kind != other->kind) {
      reading->other_tree.reset();
    }
  } catch (const math::Unreadable&) {
  }
  reading->choice = math::choice_of(reading->text);
  Budget budget;
  if (const auto digits = whole_number(reading->text)) {
    reading->key = fmt::format("={}", *digits);
  } else if (!reading->tree) {
    reading->key = fmt::format("\"{}", math::bare_text(reading->text));
  } else if (const auto value = rational_value(*reading->tree, budget)) {
    reading->key = fmt::format("={}", value->get_str());
  } else {
    reading->key = spelled(*reading->tree);
  }
  reading_ = reading;
}

const std::string& Answer::key() const {
  return reading_->key;
}

bool equivalent(const Answer& reference, const Answer& given) {
  const Answer::Reading& wanted = *reference.reading_;
  const Answer::Reading& found = *given.reading_;
  if (wanted.text.empty() || found.text.empty()) return false;
  if (wanted.key == found.key) return true;
  if (wanted.choice && found.choice)
    return wanted.choice->letter == found.choice->letter && !math::hedges(found.choice->text);
  if (found.choice && !found.choice->text.empty()) return equivalent(reference, Answer(found.choice->text));
  if (wanted.choice && !wanted.choice->text.empty()) return equivalent(Answer(wanted.choice->text), given);
  Budget budget;
  for (const auto* const tree : {&wanted.tree, &wanted.other_tree}) {
    for (const auto* const other : {&found.tree, &found.other_tree}) {
      if (*tree && *other && same_answer(**tree, **other, budget)) return true;
    }
  }
  const auto words = math::words_of(wanted.text);
  if (words && (!wanted.tree || wanted.tree->kind == math::Kind::kText))
    return words == math::words_of(found.text);
  return !wanted.tree && math::bare_text(wanted.text) == math::bare_text(found.text);
}

bool interchangeable(const Answer& one, const Answer& other) {
  return equivalent(one, other) && equivalent(other, one);
}

Grade grade_response(std::string_view response, std::string_view answer, bool in_thought) {
  Extracted found = extracted_answer(response, in_thought);
  Grade grade;
  grade.correct = !found.text.empty() && equivalent(Answer(answer), Answer(found.text));
  grade.format_ok = found.readable || grade.correct;
  if (grade.format_ok) grade.extracted = std::move(found.text);
  return grade;
}

}  // namespace routeopd::grade
