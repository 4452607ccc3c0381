// What the arms cost on the same prompts and weights. Every round takes one step of every arm in turn, from the starting
// student, so that a machine that slows down slows all of them; a step before it, which does not count, has memory and
// caches ready. Ratios are to sampled_rkl within a round.
//
//   cost.json {"rounds", "arms": [{"name", "k", "m", "seconds": {"rollout", "score", "route", "learn", "total"} (medians),
//              "tokens_per_second", "peak_bytes", "teacher_calls", "relative_total": {"mean", "low", "high"},
//              "relative_learn": {…}}], "routes": [{"k", "m", "top_k_ms", "routing_ms", "gather_ms"}]}
//
// Intervals are percentile bootstraps of the mean over rounds. The breakdown of route construction holds both models'
// logits fixed: the top-k of both, the routing kernel, and the log-odds of the pairs at the learner's head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "routeopd/grade/statistics.h"
#include "routeopd/lab/loaded_pair.h"

namespace routeopd::lab {

// Steps that measure_cost() makes.
std::int64_t cost_steps(const StudyOptions& options);

Json measure_cost(
    const LoadedPair& pair, const StudyOptions& options,
    const std::function<void(std::int64_t done, std::int64_t total, double seconds)>& watch = {});

// Mean and 95 % interval of a few repeated measurements.
grade::Interval interval_over_rounds(std::span<const double> values);

}  // namespace routeopd::lab
