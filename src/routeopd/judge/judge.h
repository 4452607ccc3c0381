// The judge's stage: two passes over every case, adjudication where they differ, and what came of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "routeopd/judge/ask.h"
#include "routeopd/judge/cases.h"

namespace routeopd::judge {

// Of one case, or of a response that needed no judge.
struct Judgement {
  Label label = Label::kUnjudged;
  std::optional<Label> pass1;
  std::optional<Label> pass2;
  bool adjudicated = false;  // the passes differed, and a third request decided
  bool answered = true;      // no request was left without an answer
  std::string rationale;     // of the verdict that decided; pass 1's where both agree
  std::string reason;        // why it is unjudged
};

// `questions` of the stage named `stage` are about to be asked; called again with how many are done.
using JudgeWatch =
    std::function<std::function<void(std::int64_t done)>(const char* stage, std::int64_t questions)>;

// One judgement a case. Throws as Asker::ask.
std::vector<Judgement> judge_cases(const std::vector<JudgeCase>& cases, Asker& asker,
                                   const JudgeWatch& watch = {});

// Every response of every run with its label, runs and responses in the order of the input.
std::vector<std::vector<Judgement>> judgements_of(const JudgeInput& input,
                                                  const std::vector<Judgement>& of_cases);

}  // namespace routeopd::judge
