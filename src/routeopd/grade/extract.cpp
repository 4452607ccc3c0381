// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/extract.h"

#include <utility>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/boxes.h"
#include "routeopd/grade/phrases.h"
#include "routeopd/grade/readable.h"

namespace routeopd::grade {
namespace {

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

}  // namespace routeopd::grade
