// What a study shows of an effect that the paper has, in sentences that are made by rule, never by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/grade/statistics.h"

namespace routeopd::study {

// With fewer problems or sequences than this the percentile bootstrap's interval is too narrow: of one it has
// no width at all, of three it ends at the extremes.
inline constexpr std::size_t kFewestObservations = 10;

// "+2.09 [+1.41, +2.81]" of fractions, in points.
std::string points(const grade::Interval& change);

enum class Outcome { kShown, kNotShown, kOpposite };

// The paper's difference against ours: kNotShown while our interval holds 0, else by the sign.
Outcome outcome_of(double paper, const grade::Interval& here);

// "shown", "not shown", "the opposite".
std::string name_of(Outcome outcome);

// "The paper has routeopd above fixed_mid by 1.10; here the difference is -0.60 [-1.30, +0.10]: not shown."
// The paper's difference is in points, ours a fraction.
std::string effect_sentence(const std::string& subject, const std::string& reference, double paper,
                            const grade::Interval& here);

// A variant's difference from a reference.
struct Difference {
  std::string name;
  grade::Interval here;
};

// "Against sampled_rkl: full_rkl and union_rkl lie above it, routeopd lies below it and for exact the
// interval holds 0", as far as intervals tell; empty where there is nothing to compare.
std::string order_words(const std::string& reference, const std::vector<Difference>& differences);

// A level, with an interval where one was measured.
struct Level {
  std::string name;
  double paper = 0;
  double here = 0;  // in the paper's unit
  std::optional<grade::Interval> interval;
};

// Of two levels, how sure their order is.
struct Evidence {
  std::optional<grade::Interval> difference{};  // first - second, paired, in the paper's unit
  // the same for each training seed, where that is all there is
  std::vector<std::optional<double>> per_seed{};
  std::string basis{};  // after the difference: " on the 112 states that have both"
};

// "The paper has higher fidelity for routeopd than for sampled_rkl (90.4 against 35.4); here 71.2 [70.0,
// 72.4] against 65.0 [64.1, 65.9], a difference of +6.2 [+5.1, +7.3]: shown." The paired difference decides
// where there is one; without it two intervals, which show nothing while they overlap; without those the
// sentence has the order, and how many seeds agree with it. Numbers have `digits` digits after the point,
// three significant ones with kSignificant.
inline constexpr int kSignificant = -1;
std::string level_sentence(const std::string& what, const Level& first, const Level& second, int digits,
                           const Evidence& evidence = {});

}  // namespace routeopd::study
