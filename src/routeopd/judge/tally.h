// Labels counted: their distribution, transitions into and out
// of correctness, lengths, and how far the passes agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/judge/judge.h"
#include "routeopd/judge/labels.h"

namespace routeopd::judge {

// Responses by the label of pass 1 (row) and of pass 2 (column).
using Confusion = PerLabel<PerLabel<std::int64_t>>;

struct Agreement {
  std::int64_t n = 0;
  std::optional<double> share;  // p_o, the share with equal labels; none for n = 0
  // Cohen's kappa, (p_o - p_e) / (1 - p_e), with p_e = sum over labels of the product of both passes' shares.
  // None for n = 0 and for p_e = 1, where both passes gave all responses one and the same label.
  std::optional<double> kappa;
};

Agreement agreement_of(const Confusion& counts);

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
  std::vector<ScopeTally> scopes;  // each suite, by name; then all together, where there are several
  // Over responses whose two passes both gave a label. `all`: every response, where both passes count as
  // having given correct and format alike, as in the paper; `judged`: those that the judge saw.
  Agreement all;
  Agreement judged;
  std::int64_t adjudicated = 0;
  std::int64_t unjudged = 0;
  std::int64_t unanswered = 0;  // those of the unjudged that may be judged by asking again
};

// Throws UserError when a (suite, problem, sample) of the first run is not in another.
JudgeTally tally_of(const JudgeInput& input, const std::vector<std::vector<Judgement>>& judgements);

}  // namespace routeopd::judge
