// Averages over problems and the paired cluster bootstrap of method.md. All randomness is addressed.
//
// Shapes: P problems, S samples per problem.
//
// The i-th problem (i < P) that bootstrap draw d takes from suite s is
//   floor(u · P),  u = unit_uniform(word i mod 4 of addressed_words(seed, Purpose::kBootstrap,
//                      {step = first_suite + s, prompt = d, response = 0, position = i div 4}, 0)),
// a function of nothing else: contrasts that share a suite's number, its problems' order and the seed share
// their draws. u has 24 bits and prompt 24, so P and the draws go up to 2^24.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace routeopd::grade {

// Which samples were right, one suite under one protocol.
struct Correctness {
  std::int64_t problems = 0;
  std::int64_t samples = 0;
  std::vector<std::uint8_t> correct_PS;  // 0 is wrong, all else right
};

// Avg@S: the mean over problems of the share of right samples, as a fraction.
double average(const Correctness& suite);

// pass@k: the mean over problems of 1 - C(S-c, k) / C(S, k) with c right samples of S, which is the chance
// that k samples drawn without replacement hold a right one, and unbiased. 1 <= k <= S.
double pass_at_k(const Correctness& suite, std::int64_t k);

struct Interval {
  double mean = 0;  // of the data themselves, not of the draws
  double low = 0;
  double high = 0;
};

struct Bootstrap {
  std::uint64_t seed = 42;
  std::int64_t draws = 10000;
  double level = 0.95;
  std::uint32_t first_suite = 0;  // the number of the first suite in the address
};

// B - A, paired on (problem, sample). Problems are drawn with replacement, each with all of its samples, the
// same draw for both; each suite is resampled by itself (suite s has its own random numbers), and the mean
// over the suites is taken last. The interval lies between the (1 - level)/2 and (1 + level)/2 quantiles of
// the draws. a and b hold the same suites in the same order.
Interval paired_contrast(std::span<const Correctness> a, std::span<const Correctness> b,
                         const Bootstrap& bootstrap);

// One suite of one pair of runs, as it enters a mean over several.
struct WeightedContrast {
  const Correctness* a = nullptr;
  const Correctness* b = nullptr;
  std::uint32_t suite = 0;  // its number in the address, without first_suite; equal numbers share their draws
  double weight = 1;
};

// The mean of B - A over the terms by their weights. Terms of one suite hold its problems in one order.
Interval weighted_contrast(std::span<const WeightedContrast> terms, const Bootstrap& bootstrap);

// The interval of Avg@S itself, over problems; mean over suites last.
Interval average_interval(std::span<const Correctness> suites, const Bootstrap& bootstrap);

// The mean of values that come in clusters, such as the states of one response, with an interval that draws
// whole clusters. NaN values do not count. Draw d takes as many clusters as there are, with replacement, each
// with all of its values, and the mean is that of all values taken; which clusters it takes is the rule above
// with clusters in place of problems. cluster[i], from 0, is that of values[i]. NaN where no value is left.
Interval clustered_mean(std::span<const double> values, std::span<const std::int32_t> cluster,
                        const Bootstrap& bootstrap);

// The value at `share` (0 to 1) of ascending values, by linear interpolation between the order statistics
// around share · (n - 1), as numpy.quantile has it by default.
double quantile(std::span<const double> ascending, double share);

// How many (problem, sample) pairs are right in both, in A alone, in B alone, in neither.
struct Transitions {
  std::int64_t both = 0;
  std::int64_t a_only = 0;
  std::int64_t b_only = 0;
  std::int64_t neither = 0;
};
Transitions transitions(const Correctness& a, const Correctness& b);

}  // namespace routeopd::grade
