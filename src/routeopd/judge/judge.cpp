// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/judge.h"

namespace routeopd::judge {
namespace {

std::function<void(std::int64_t)> watch_of(const JudgeWatch& watch, const char* stage,
                                           std::size_t questions) {
  return watch ? watch(stage, static_cast<std::int64_t>(questions)) : nullptr;
}

Judgement from_passes(const Reply& one, const Reply& two) {
  Judgement judgement;
  if (one.verdict) judgement.pass1 = one.verdict->label;
  if (two.verdict) judgement.pass2 = two.verdict->label;
  judgement.answered = one.answered && two.answered;
  if (!one.verdict || !two.verdict) {
    for (const Reply* reply : {&one, &two}) {
      const bool better = judgement.reason.empty() || !reply->answered;  // what asking again may change
      if (!reply->verdict && better) judgement.reason = reply->reason;
    }
  } else if (one.verdict->label == two.verdict->label) {
    judgement.label = one.verdict->label;
    judgement.rationale = one.verdict->rationale;
  }
  return judgement;
}

}  // namespace

std::vector<Judgement> judge_cases(const std::vector<JudgeCase>& cases, Asker& asker,
                                   const JudgeWatch& watch) {
  std::vector<Question> questions;
  for (const JudgeCase& asked : cases) {
    for (const int pass : {0, 1}) questions.push_back({&asked, pass, {}});
  }
  const std::vector<Reply> replies = asker.ask(questions, watch_of(watch, "passes", questions.size()));

  std::vector<Judgement> judgements;
  std::vector<Question> disputes;
  std::vector<std::size_t> disputed;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const Reply& one = replies[2 * c];
    const Reply& two = replies[2 * c + 1];
    judgements.push_back(from_passes(one, two));
    if (!one.verdict || !two.verdict || one.verdict->label == two.verdict->label) continue;
    disputes.push_back({&cases[c], 0, {*one.verdict, *two.verdict}});
    disputed.push_back(c);
  }
  const std::vector<Reply> decisions = asker.ask(disputes, watch_of(watch, "adjudication", disputes.size()));
  for (std::size_t d = 0; d < disputed.size(); ++d) {
    Judgement& judgement = judgements[disputed[d]];
    judgement.answered = decisions[d].answered;
    judgement.reason = decisions[d].reason;
    if (!decisions[d].verdict) continue;
    judgement.label = decisions[d].verdict->label;
    judgement.rationale = decisions[d].verdict->rationale;
    judgement.adjudicated = true;
  }
  return judgements;
}

std::vector<std::vector<Judgement>> judgements_of(const JudgeInput& input,
                                                  const std::vector<Judgement>& of_cases) {
  std::vector<std::vector<Judgement>> all;
  for (const LabelledRun& run : input.runs) {
    std::vector<Judgement>& judgements = all.emplace_back();
    for (std::size_t i = 0; i < run.responses.size(); ++i) {
      if (run.case_of[i]) {
        judgements.push_back(of_cases[*run.case_of[i]]);
      } else {
        judgements.emplace_back().label = *observed_label(run.responses[i]);
      }
    }
  }
  return all;
}

}  // namespace routeopd::judge
