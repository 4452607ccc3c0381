// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/labels.h"

#include "routeopd/base/error.h"

namespace routeopd::judge {

std::string name_of(Label label) {
  static constexpr PerLabel<const char*> kNames{"correct",        "reasoning", "arithmetic",
                                                "premature_stop", "format",    "unjudged"};
  return kNames[index_of(label)];
}

std::string judge_name_of(Label label) {
  switch (label) {
    case Label::kReasoning:
      return "reasoning_error";
    case Label::kArithmetic:
      return "arithmetic_error";
    default:
      ROUTEOPD_INVARIANT(label == Label::kPrematureStop);
      return "premature_stop";
  }
}

std::optional<Label> label_of_judge(std::string_view words) {
  constexpr std::size_t kLongest = 64;
  const std::size_t first = words.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || words.size() - first > kLongest) return std::nullopt;
  words = words.substr(first, words.find_last_not_of(" \t\r\n") - first + 1);
  std::string plain;
  for (const char c : words) {
    const bool upper = c >= 'A' && c <= 'Z';
    plain += c == '-' || c == ' ' ? '_' : upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (plain == "reasoning" || plain == "reasoning_error") return Label::kReasoning;
  if (plain == "arithmetic" || plain == "arithmetic_error") return Label::kArithmetic;
  if (plain == "premature_stop" || plain == "premature_stop_error") return Label::kPrematureStop;
  return std::nullopt;
}

std::optional<Label> observed_label(const grade::EvalResponse& response) {
  if (response.correct) return Label::kCorrect;
  if (!response.format_ok) return Label::kFormat;
  return std::nullopt;
}

}  // namespace routeopd::judge
