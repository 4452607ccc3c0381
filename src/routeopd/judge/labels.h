// The error taxonomy: every response has exactly one label, the first of these rules that fits.
//
//   correct         the extracted answer is the reference answer                                   observed
//   format          no answer can be read                                                          observed
//   arithmetic      the strategy is valid; the first decisive mistake is a local calculation       judged
//   premature_stop  it ends before a necessary step, and holds no earlier mistake                  judged
//   reasoning       the first decisive mistake is conceptual or logical                            judged
//   unjudged        neither of the first two, and the judge gave no usable answer
//
// Whether a response was cut off at the limit of tokens plays no part: that is a flag beside the label.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "routeopd/grade/eval_files.h"

namespace routeopd::judge {

// In the order of the paper's table.
enum class Label { kCorrect, kReasoning, kArithmetic, kPrematureStop, kFormat, kUnjudged };

inline constexpr std::array kAllLabels{Label::kCorrect,       Label::kReasoning, Label::kArithmetic,
                                       Label::kPrematureStop, Label::kFormat,    Label::kUnjudged};
inline constexpr std::size_t kLabels = kAllLabels.size();

template <class Value>
using PerLabel = std::array<Value, kLabels>;

constexpr std::size_t index_of(Label label) {
  return static_cast<std::size_t>(label);
}

// As files have it: correct, reasoning, arithmetic, premature_stop, format, unjudged.
std::string name_of(Label label);

// As the judge is asked for it: reasoning_error, arithmetic_error, premature_stop. Only those three.
std::string judge_name_of(Label label);

// What a judge may have meant: its three names, in any case, with '-' or ' ' for '_', and without "_error".
std::optional<Label> label_of_judge(std::string_view words);

// The label of the deterministic stages; none where the judge is to be asked.
std::optional<Label> observed_label(const grade::EvalResponse& response);

}  // namespace routeopd::judge
