//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/prompt.h"

namespace routeopd::judge {
namespace {

constexpr const char* kSystem =
    "You are a careful judge of mathematical solutions. Identify the first error that causes the final "
    "answer to be "
    "wrong. Judge only the response content; do not infer which model or method produced it.";

constexpr const char* kLabelsText =
    "Choose exactly one label:\n"
    "reasoning_error: the first decisive error is conceptual or logical, including a wrong method, invalid "
    "inference, or unjustified transformation.\n"
    "arithmetic_error: the approach is otherwise correct and the first decisive error is a local "
    "calculation, "
    "algebra, sign, or simplification mistake.\n"
    "premature_stop: the response stops before completing the required reasoning, with no earlier reasoning "
    "or "
    "arithmetic error.";

// The paper gives no words for adjudication; these are its paragraph on boundary cases as instructions.
constexpr const char* kPrecedence =
    "Rules:\n"
    "A local calculation error is an arithmetic_error only when the preceding strategy remains valid; if the "
    "calculation follows from an invalid setup, the earlier setup makes it a reasoning_error.\n"
    "A short response is a premature_stop only when it ends before a necessary step and contains no earlier "
    "decisive error. Merely concise but complete reasoning is not premature.\n"
    "Surface form does not override mathematical causality.";

constexpr const char* kForm =
    R"(Return only JSON in the form {"label": "<one label>", "rationale": "<one short sentence>"}.)";

std::string case_text(const JudgeCase& asked) {
  return fmt::format("Problem: {}\nReference answer: {}\nModel response: {}\nExtracted answer: {}",
                     asked.problem, asked.reference, asked.response, asked.extracted);
}

Json messages(const std::string& user) {
  return Json::array({{{"role", "system"}, {"content", kSystem}}, {{"role", "user"}, {"content", user}}});
}

}  // namespace

Json pass_messages(const JudgeCase& asked) {
  return messages(fmt::format("{}\n\n{}\n\n{}", case_text(asked), kLabelsText, kForm));
}

Json adjudication_messages(const JudgeCase& asked, const Verdict& one, const Verdict& other) {
  ROUTEOPD_INVARIANT(one.label != other.label);
  const bool in_order = judge_name_of(one.label) < judge_name_of(other.label);
  const Verdict& first = in_order ? one : other;
  const Verdict& second = in_order ? other : one;
  const std::string candidates =
      fmt::format("Two judges disagree. Candidates:\n{}: {}\n{}: {}\nDecide between these two labels.",
                  judge_name_of(first.label), first.rationale, judge_name_of(second.label), second.rationale);
  return messages(fmt::format("{}\n\n{}\n\n{}\n\n{}\n\n{}", case_text(asked), kLabelsText, kPrecedence,
                              candidates, kForm));
}

}  // namespace routeopd::judge
