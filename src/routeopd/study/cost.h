// What the arms cost on the same prompts and weights. Every round takes one step of every arm in turn, from
// the starting student, so that a machine that slows down slows all of them; a step before it, which does not
// count, has memory and caches ready. Ratios are to sampled_rkl-lean within a round: sampled_rkl as its users
// run it, which scores the tokens taken alone, without top-k and routes ([train] diagnostics = false). The
// other arms, sampled_rkl among them, are measured as the study runs them, with everything recorded.
//
//   cost.json {"rounds", "reference", "arms": [{"name", "k", "m", "seconds": {"rollout", "score", "route",
//              "learn", "learner", "total"} (medians), "tokens_per_second", "peak_bytes", "teacher_calls",
//              "relative_total": {"mean", "low", "high"}, "relative_learner": {…}}], "routes": [{"k", "m",
//              "top_k_ms", "routing_ms", "gather_ms"}]}
//
// The learner's time is route + learn, as the paper counts it.
//
// A ratio is the geometric mean over rounds, its interval Student's t of the mean of the logarithms. The
// breakdown of route construction holds both models' logits fixed: the top-k of both, the routing kernel, and
// the log-odds of the pairs at the learner's head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "routeopd/study/loaded_pair.h"
#include "routeopd/study/variants.h"

namespace routeopd::study {

// The arm that ratios are to.
inline constexpr const char* kLeanReference = "sampled_rkl-lean";

// What is measured: kLeanReference, the main arms, routeopd at the paper's k and m, and the whole vocabulary.
// Under --arms those that were named, routeopd standing for its k and m too, and sampled_rkl in both forms in
// any case.
std::vector<Variant> cost_variants(const StudyOptions& options);

// Steps that measure_cost() makes, each shape of the breakdown counting as one.
std::int64_t cost_steps(const StudyOptions& options);

// `watch` is told of the steps done, of how many, and the seconds since it was told last.
Json measure_cost(
    const LoadedPair& pair, const StudyOptions& options,
    const std::function<void(std::int64_t done, std::int64_t total, double seconds)>& watch = {});

// A ratio that was measured a few times. Ends of the interval are there from two rounds on: one says nothing
// of its spread.
struct RatioInterval {
  double mean = 1;  // geometric
  std::optional<double> low, high;
};

// exp(mean of the logarithms), and at 95 % exp(mean +- t s / sqrt(n)), t with n - 1 degrees of freedom:
// resampling three rounds would give little more than their range.
RatioInterval interval_over_rounds(std::span<const double> ratios);

}  // namespace routeopd::study
