// What the judge reads: the paper's prompt word for word, and ours for disagreements.
//
// Nothing else is in a request. The method, the checkpoint, the directory, the problem's id, the sample's number and
// what another run answered have no way in: a JudgeCase has no field for them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

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

// The messages of an adjudication between two verdicts of different labels, with the paper's rules of precedence. The
// candidates stand in the order of their names, so that swapping the passes changes nothing.
Json adjudication_messages(const JudgeCase& asked, const Verdict& one, const Verdict& other);

}  // namespace routeopd::judge
