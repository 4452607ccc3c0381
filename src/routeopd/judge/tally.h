// Labels counted: the distribution, the transitions into and out of correctness, lengths, and the passes' agreement.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/judge/agreement.h"
#include "routeopd/judge/judge.h"

namespace routeopd::judge {

// Lengths in tokens; shares as fractions.
struct RunTally {
  PerLabel<std::int64_t> counts{};
  std::int64_t total = 0;
  double mean = 0;
  double p25 = 0;
  double p50 = 0;
  double p75 = 0;
  double p90 = 0;
  double clipped = 0;
  double format_valid = 0;
};

// Pairs of the same (suite, problem, sample) in the first run and another, one side of them correct.
struct TransitionTally {
  std::size_t to_run = 0;                   // the other run's number, from 1
  PerLabel<std::int64_t> into_correct{};    // by the label that the first run had; none at kCorrect
  PerLabel<std::int64_t> out_of_correct{};  // by the label that the other run has; none at kCorrect
};

struct ScopeTally {
  std::string suite;  // empty: all of them
  std::vector<RunTally> runs;
  std::vector<TransitionTally> transitions;  // one for each run but the first
};

struct JudgeTally {
  std::vector<ScopeTally> scopes;  // each suite, by name; behind them all, where there is more than one
  // Over responses whose two passes both gave a label. `all`: every response, where correct and format count as given
  // alike by both passes, as the paper counts; `judged`: those that the judge saw.
  Agreement all;
  Agreement judged;
  std::int64_t adjudicated = 0;
  std::int64_t unjudged = 0;
  std::int64_t unanswered = 0;  // of the unjudged, those that asking again may help
};

// Throws UserError when a (suite, problem, sample) of the first run is not in another.
JudgeTally tally_of(const JudgeInput& input, const std::vector<std::vector<Judgement>>& judgements);

}  // namespace routeopd::judge
