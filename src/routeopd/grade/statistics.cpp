// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "routeopd/base/error.h"
#include "routeopd/base/philox.h"

namespace routeopd::grade {
namespace {

constexpr std::int64_t kAddressable = std::int64_t{1} << 24;

void check_suite(const Correctness& suite) {
  if (suite.problems < 1 || suite.problems > kAddressable || suite.samples < 1 ||
      suite.samples > kAddressable) {
    throw UserError("a suite has {} problems of {} samples, expected 1 to {} of each", suite.problems,
                    suite.samples, kAddressable);
  }
  if (suite.correct_PS.size() != static_cast<std::size_t>(suite.problems * suite.samples)) {
    throw UserError("a suite of {} problems of {} samples has {} grades, expected {}", suite.problems,
                    suite.samples, suite.correct_PS.size(), suite.problems * suite.samples);
  }
}

void check_pair(const Correctness& a, const Correctness& b) {
  check_suite(a);
  check_suite(b);
  if (a.problems != b.problems || a.samples != b.samples) {
    throw UserError("A has {} problems of {} samples and B {} of {}, expected the same suite in both",
                    a.problems, a.samples, b.problems, b.samples);
  }
}

// How many samples of each problem are right.
std::vector<std::int64_t> right_counts(const Correctness& suite) {
  check_suite(suite);
  std::vector<std::int64_t> counts_P;
  auto row = suite.correct_PS.begin();
  for (std::int64_t p = 0; p < suite.problems; ++p, row += suite.samples) {
    counts_P.push_back(std::count_if(row, row + suite.samples, [](std::uint8_t c) { return c != 0; }));
  }
  return counts_P;
}

// What is resampled: a whole number for each problem (right samples, or their difference), so that sums over
// problems are exact and the order of addition does not matter; `unit` turns a sum into a mean.
struct Scores {
  std::vector<std::int64_t> of_P;
  double unit = 1;

  std::uint32_t suite = 0;  // number in the address
  double weight = 1;        // in the mean over suites

  Scores(std::vector<std::int64_t> scores_P, std::int64_t samples, std::uint32_t suite_number)
      : of_P(std::move(scores_P)),
        unit(static_cast<double>(of_P.size()) * static_cast<double>(samples)),
        suite(suite_number) {}

  double mean() const {
    return static_cast<double>(std::accumulate(of_P.begin(), of_P.end(), std::int64_t{0})) / unit;
  }

  double resampled_mean(const Bootstrap& bootstrap, std::uint32_t draw) const {
    const std::uint64_t problems = of_P.size();
    std::int64_t sum = 0;
    for (std::uint64_t i = 0; i < problems; i += 4) {
      const StateAddress at{.step = bootstrap.first_suite + suite,
                            .prompt = draw,
                            .position = static_cast<std::uint32_t>(i / 4)};
      const PhiloxBlock words = addressed_words(bootstrap.seed, Purpose::kBootstrap, at, 0);
      const std::size_t taken = std::min<std::uint64_t>(4, problems - i);
      for (std::size_t w = 0; w < taken; ++w) {
        // floor(unit_uniform(word) · P) in whole numbers: both factors have at most 25 bits.
        sum += of_P[(std::uint64_t{words[w]} >> 8) * problems >> 24];
      }
    }
    return static_cast<double>(sum) / unit;
  }
};

Interval bootstrapped(const std::vector<Scores>& suites, const Bootstrap& bootstrap) {
  if (bootstrap.draws < 1 || bootstrap.draws > kAddressable) {
    throw UserError("bootstrap: expected 1 to {} draws, got {}", kAddressable, bootstrap.draws);
  }
  if (!(bootstrap.level > 0 && bootstrap.level < 1)) {
    throw UserError("bootstrap: expected a level between 0 and 1, such as 0.95, got {}", bootstrap.level);
  }
  if (suites.empty()) throw UserError("bootstrap: expected at least one suite, got none");
  double total = 0;
  Interval interval;
  for (const Scores& suite : suites) {
    if (suite.suite > UINT32_MAX - bootstrap.first_suite)
      throw UserError("bootstrap: suites from number {} on do not fit 32 bits", bootstrap.first_suite);
    interval.mean += suite.weight * suite.mean();
    total += suite.weight;
  }
  interval.mean /= total;

  std::vector<double> means(static_cast<std::size_t>(bootstrap.draws));
  for (std::uint32_t draw = 0; draw < means.size(); ++draw) {
    for (const Scores& suite : suites) means[draw] += suite.weight * suite.resampled_mean(bootstrap, draw);
    means[draw] /= total;
  }
  std::sort(means.begin(), means.end());
  interval.low = quantile(means, (1 - bootstrap.level) / 2);
  interval.high = quantile(means, (1 + bootstrap.level) / 2);
  return interval;
}

// The sum and the number of a cluster's values.
struct Sums {
  double total = 0, count = 0;
  void add(const Sums& other) {
    total += other.total;
    count += other.count;
  }
};

}  // namespace

double average(const Correctness& suite) {
  return Scores(right_counts(suite), suite.samples, 0).mean();
}

double pass_at_k(const Correctness& suite, std::int64_t k) {
  const std::vector<std::int64_t> counts_P = right_counts(suite);
  if (k < 1 || k > suite.samples) {
    throw UserError("pass@k: expected k from 1 to the {} samples there are, got {}", suite.samples, k);
  }
  double sum = 0;
  for (const std::int64_t right : counts_P) {
    // C(S-c, k) / C(S, k) as a product of c factors, each at most
    // 1: nothing overflows. Once k > S-c one of them is zero.
    double none = 1;
    for (std::int64_t i = suite.samples - right + 1; i <= suite.samples && none > 0; ++i) {
      none *= i <= k ? 0 : 1 - static_cast<double>(k) / static_cast<double>(i);
    }
    sum += 1 - none;
  }
  return sum / static_cast<double>(suite.problems);
}

Interval weighted_contrast(std::span<const WeightedContrast> terms, const Bootstrap& bootstrap) {
  std::vector<Scores> differences;
  for (const WeightedContrast& term : terms) {
    check_pair(*term.a, *term.b);
    std::vector<std::int64_t> scores_P = right_counts(*term.b);
    const std::vector<std::int64_t> before_P = right_counts(*term.a);
    for (std::size_t p = 0; p < scores_P.size(); ++p) scores_P[p] -= before_P[p];
    differences.emplace_back(std::move(scores_P), term.a->samples, term.suite).weight = term.weight;
  }
  return bootstrapped(differences, bootstrap);
}

Interval paired_contrast(std::span<const Correctness> a, std::span<const Correctness> b,
                         const Bootstrap& bootstrap) {
  if (a.size() != b.size()) {
    throw UserError("A has {} suites and B {}, expected the same suites in both", a.size(), b.size());
  }
  std::vector<WeightedContrast> terms;
  for (std::size_t s = 0; s < a.size(); ++s)
    terms.push_back({.a = &a[s], .b = &b[s], .suite = static_cast<std::uint32_t>(s)});
  return weighted_contrast(terms, bootstrap);
}

Interval average_interval(std::span<const Correctness> suites, const Bootstrap& bootstrap) {
  std::vector<Scores> scores;
  for (const Correctness& suite : suites)
    scores.emplace_back(right_counts(suite), suite.samples, static_cast<std::uint32_t>(scores.size()));
  return bootstrapped(scores, bootstrap);
}

Interval clustered_mean(std::span<const double> values, std::span<const std::int32_t> cluster,
                        const Bootstrap& bootstrap) {
  ROUTEOPD_INVARIANT(values.size() == cluster.size());
  std::vector<Sums> clusters;
  Sums all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::size_t>(cluster[i]);
    if (at >= clusters.size()) clusters.resize(at + 1);
    if (std::isnan(values[i])) continue;
    clusters[at].add({values[i], 1});
    all.add({values[i], 1});
  }
  std::erase_if(clusters, [](const Sums& sums) { return sums.count == 0; });
  const double none = std::nan("");
  if (clusters.empty()) return {.mean = none, .low = none, .high = none};
  std::vector<double> means;
  const std::uint64_t count = clusters.size();
  for (std::uint32_t draw = 0; draw < bootstrap.draws; ++draw) {
    Sums taken;
    for (std::uint64_t i = 0; i < count; ++i) {
      const StateAddress at{
          .step = bootstrap.first_suite, .prompt = draw, .position = static_cast<std::uint32_t>(i / 4)};
      const PhiloxBlock words = addressed_words(bootstrap.seed, Purpose::kBootstrap, at, 0);
      taken.add(clusters[(std::uint64_t{words[i % 4]} >> 8) * count >> 24]);
    }
    means.push_back(taken.total / taken.count);
  }
  std::sort(means.begin(), means.end());
  return {.mean = all.total / all.count,
          .low = quantile(means, (1 - bootstrap.level) / 2),
          .high = quantile(means, (1 + bootstrap.level) / 2)};
}

double quantile(std::span<const double> ascending, double share) {
  ROUTEOPD_INVARIANT(!ascending.empty() && share >= 0 && share <= 1);
  const double at = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return std::lerp(ascending[below], ascending[above], at - static_cast<double>(below));
}

Transitions transitions(const Correctness& a, const Correctness& b) {
  check_pair(a, b);
  Transitions counts;
  for (std::size_t i = 0; i < a.correct_PS.size(); ++i) {
    const bool in_a = a.correct_PS[i] != 0;
    const bool in_b = b.correct_PS[i] != 0;
    ++(in_a ? (in_b ? counts.both : counts.a_only) : (in_b ? counts.b_only : counts.neither));
  }
  return counts;
}

}  // namespace routeopd::grade
