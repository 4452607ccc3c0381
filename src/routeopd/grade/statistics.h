// Averages over problems and the paired cluster bootstrap of method.md. All randomness is addressed.
//
// Shapes: P problems, S samples a problem.
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
  std::vector<std::uint8_t> correct_PS;
};

// Avg@S: the mean over problems of the share of right samples, as a fraction.
double average(const Correctness& suite);

struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};

struct Bootstrap {
  std::uint64_t seed = 42;
  std::int64_t draws = 10000;
  double level = 0.95;
};

// B - A, paired on (problem, sample). Problems are drawn with replacement, each with all of its samples, the same draw
// for both; each suite is resampled by itself (suite s has its own random numbers), and the mean over the suites is
// taken last. Percentile interval. a and b hold the same suites in the same order.
Interval paired_contrast(std::span<const Correctness> a, std::span<const Correctness> b, const Bootstrap& bootstrap);

// The interval of Avg@S itself, over problems; mean over suites last.
Interval average_interval(std::span<const Correctness> suites, const Bootstrap& bootstrap);

// How many (problem, sample) pairs are right in both, in A alone, in B alone, in neither.
struct Transitions {
  std::int64_t both = 0;
  std::int64_t a_only = 0;
  std::int64_t b_only = 0;
  std::int64_t neither = 0;
};
Transitions transitions(const Correctness& a, const Correctness& b);

}  // namespace routeopd::grade
