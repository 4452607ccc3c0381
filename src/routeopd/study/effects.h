// What a study shows of an effect that the paper has: rows of one table, made by rule, never by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/grade/statistics.h"
#include "routeopd/report/block.h"

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

// A row: an effect that the paper has, and what became of it here.
struct Verdict {
  std::string effect;   // "accuracy, routeopd over fixed_mid"
  std::string paper;    // "+1.10"
  std::string here;     // "-0.60 [-1.30, +0.10]"
  std::string outcome;  // begins with "shown", "not shown" or "the opposite" where an interval decides
  std::string part{};   // the section of the page that has its table
};

// A difference with its paired interval: the paper's in points, ours a fraction.
Verdict effect_verdict(const std::string& what, const std::string& subject, const std::string& reference,
                       double paper, const grade::Interval& here);

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
  std::string basis{};  // after the difference: ", 112 states"
};

// "fidelity, routeopd over sampled_rkl": the paper 90.4 against 35.4, here 71.2 against 65.0: +6.2 [+5.1,
// +7.3]. The paired difference decides where there is one; without it two intervals, which show nothing while
// they overlap; without those the outcome is the order, and how many seeds agree with it. Numbers have
// `digits` digits after the point, three significant ones with kSignificant.
inline constexpr int kSignificant = -1;
Verdict level_verdict(const std::string& what, const Level& first, const Level& second, int digits,
                      const Evidence& evidence = {});

// Of a quantity that goes from one value to another: whether it goes the paper's way. There is no interval.
struct Change {
  double first = 0, last = 0;
};
Verdict change_verdict(const std::string& what, const Change& paper, const Change& here, int digits);

// All of them as one table; the caption counts the outcomes. Without any the block has no table.
report::Block verdict_table(const std::vector<Verdict>& verdicts);

}  // namespace routeopd::study
