// The judge's stage: two passes over every case, adjudication where they differ, and the results.
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
  bool answered = true;      // every request was answered
  std::string rationale;     // of the verdict that decided; pass 1's where both agree
  std::string reason;        // why it is unjudged
};

// Called before a stage with its name and number of questions;
// what it returns is called with how many are done.
using JudgeWatch =
    std::function<std::function<void(std::int64_t done)>(const char* stage, std::int64_t questions)>;

// One judgement per case. Throws as Asker::ask does.
std::vector<Judgement> judge_cases(const std::vector<JudgeCase>& cases, Asker& asker,
                                   const JudgeWatch& watch = {});

// The judgement of every response of every run, in the order of the input.
std::vector<std::vector<Judgement>> judgements_of(const JudgeInput& input,
                                                  const std::vector<Judgement>& of_cases);

}  // namespace routeopd::judge
