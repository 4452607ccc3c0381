// The figures of an evaluation: of one suite, of each of its problems, and averages over suites.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/grade/eval_files.h"
#include "routeopd/grade/statistics.h"

namespace routeopd::grade {

// What summary.json says of one suite, from all of its responses in any order:
//   n, samples, avg, avg_interval [low, high], pass@k {"1", "2", "4", … and samples},
//   maj@k (same k: the most frequent answer among samples 0 … k-1, the earliest on a tie, is right),
//   length {mean, p10, p25, p50, p75, p90, max} in tokens, clip_rate, format_rate.
// Rates and averages are fractions. Throws UserError as read_eval_directory does.
Json suite_summary(std::span<const EvalResponse> responses, const Bootstrap& bootstrap);

// The same of each problem by itself, in the order in which problems were first seen: suite, problem,
// samples, right, avg, pass@k, maj@k, tokens (mean), clip_rate, format_rate.
std::vector<Json> problem_summaries(std::span<const EvalResponse> responses);

// Means over suites of what suite_summary says of each, every
// suite with the same weight, and the interval of their avg.
Json average_summary(std::span<const std::vector<EvalResponse>> responses, std::vector<Json> summaries,
                     const Bootstrap& bootstrap);

}  // namespace routeopd::grade
