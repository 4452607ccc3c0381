// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/answer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/extract.h"
#include "routeopd/grade/math/equivalence.h"
#include "routeopd/grade/math/normal_form.h"
#include "routeopd/grade/math/parser.h"
#include "routeopd/grade/math/plain_text.h"

namespace routeopd::grade {
namespace {

using math::Budget;
using math::Commas;
using math::Node;

// The digits of a whole number of any length without leading zeros: too long for the parser is not too long to
// be told apart.
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

}  // namespace

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

Grade grade_response(std::string_view response, std::string_view answer) {
  Grade grade;
  grade.extracted = extracted_answer(response);
  grade.format_ok = !grade.extracted.empty();
  grade.correct = grade.format_ok && equivalent(Answer(answer), Answer(grade.extracted));
  return grade;
}

}  // namespace routeopd::grade
