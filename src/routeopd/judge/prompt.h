// What the judge reads: the paper's prompt word for word, and
// ours for disagreements; and the verdict in its answer.
//
// Nothing else is in a request. A JudgeCase has no field for the method, the checkpoint, the directory, the
// problem's id, the sample's number or what another run answered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "routeopd/base/fields.h"
#include "routeopd/judge/labels.h"

namespace routeopd::judge {

struct JudgeCase {
  std::string problem;
  std::string reference;
  std::string response;
  std::string extracted;
};

// What a judge answered.
struct Verdict {
  Label label = Label::kReasoning;  // one of the three judged labels
  std::string rationale;
};

// The messages of a pass. Values are put in as they are: a response that holds "{extracted_answer}" keeps it.
Json pass_messages(const JudgeCase& asked);

// The messages of an adjudication between two verdicts of different labels, with the paper's rules of
// precedence. The candidates are in the order of their names, so that swapping the passes changes nothing.
Json adjudication_messages(const JudgeCase& asked, const Verdict& one, const Verdict& other);

inline constexpr std::size_t kMostRationale = 500;  // bytes

// The verdict in a text: after the last </think>, in prose or a code fence, the flat JSON objects whose
// "label" names one of the three labels. None where there is no such object, or where two name different
// labels. Backslashes that JSON does not know, which judges write in formulas, and line feeds inside strings
// are accepted. Only the last 64 kB and the last 64 braces of a text are read.
std::optional<Verdict> read_verdict(std::string_view text);

}  // namespace routeopd::judge
