// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/probe_contrast.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "routeopd/base/philox.h"
#include "routeopd/report/tolerant_files.h"
#include "routeopd/table/cells.h"

namespace routeopd::study {
namespace {

using report::list_at;
using report::number_at;
using report::text_at;
using report::whole_at;

std::optional<double> value_of(const Json& state, const ProbedStep& step, const char* key) {
  for (const Json& value : list_at(state, "values")) {
    if (text_at(value, "name") == step.name && text_at(value, "intervention") == step.intervention)
      return number_at(value, {key});
  }
  return std::nullopt;
}

// Of one sequence.
struct Sum {
  double difference = 0;
  double states = 0;
};

std::optional<Level> level_of(const Json& row, const char* key, const ProbedLevel& of) {
  const auto mean = number_at(row, {key, "mean"}), low = number_at(row, {key, "low"}),
             high = number_at(row, {key, "high"});
  if (!mean || !of.paper) return std::nullopt;
  Level level{.name = of.shown, .paper = *of.paper, .here = 100 * *mean, .interval = {}};
  if (low && high) level.interval = grade::Interval{100 * *mean, 100 * *low, 100 * *high};
  return level;
}

}  // namespace

std::optional<ProbeContrast> probe_contrast(const report::ProbeFiles& probe, const ProbedStep& first,
                                            const ProbedStep& second, const char* key) {
  std::map<std::int64_t, Sum> by_sequence;
  for (const Json& state : probe.states) {
    const std::optional<std::int64_t> sequence = whole_at(state, "sequence");
    const std::optional<double> a = value_of(state, first, key), b = value_of(state, second, key);
    if (!sequence || !a || !b) continue;
    Sum& sum = by_sequence[*sequence];
    sum.difference += *a - *b;
    ++sum.states;
  }
  if (by_sequence.size() < kFewestObservations) return std::nullopt;
  std::vector<Sum> sums;
  Sum all;
  for (const auto& [sequence, sum] : by_sequence) {
    sums.push_back(sum);
    all.difference += sum.difference;
    all.states += sum.states;
  }
  const grade::Bootstrap bootstrap;
  std::vector<double> draws;
  for (std::int64_t d = 0; d < bootstrap.draws; ++d) {
    Sum drawn;
    for (std::size_t i = 0; i < sums.size(); i += 4) {
      const StateAddress at{.prompt = static_cast<std::uint32_t>(d),
                            .position = static_cast<std::uint32_t>(i / 4)};
      const PhiloxBlock words = addressed_words(bootstrap.seed, Purpose::kBootstrap, at, 0);
      for (std::size_t w = 0; w < std::min<std::size_t>(4, sums.size() - i); ++w) {
        // floor(u · sequences) in whole numbers.
        const Sum& sum = sums[(std::uint64_t{words[w]} >> 8U) * sums.size() >> 24U];
        drawn.difference += sum.difference;
        drawn.states += sum.states;
      }
    }
    draws.push_back(drawn.difference / drawn.states);
  }
  std::sort(draws.begin(), draws.end());
  return ProbeContrast{
      .difference = {all.difference / all.states, grade::quantile(draws, (1 - bootstrap.level) / 2),
                     grade::quantile(draws, (1 + bootstrap.level) / 2)},
      .states = static_cast<std::size_t>(all.states)};
}

std::string spread_cell(const Json& row, const char* key) {
  const auto mean = number_at(row, {key, "mean"}), low = number_at(row, {key, "low"}),
             high = number_at(row, {key, "high"});
  if (!mean || !low || !high) return table::percent(mean, 1);
  return fmt::format("{} {}", table::percent(mean, 1), table::interval(*low, *high, 1));
}

void add_step_verdict(const report::ProbeFiles& probe, const char* key, const ProbedLevel& first,
                      const ProbedLevel& second, std::vector<Verdict>& verdicts) {
  const auto level = [&](const ProbedLevel& each) {
    return level_of(probe.row(each.step.name, each.step.intervention), key, each);
  };
  const std::optional<Level> a = level(first), b = level(second);
  if (!a || !b) return;
  Evidence evidence;
  if (const std::optional<ProbeContrast> found = probe_contrast(probe, first.step, second.step, key)) {
    const grade::Interval& difference = found->difference;
    evidence.difference = grade::Interval{100 * difference.mean, 100 * difference.low, 100 * difference.high};
    evidence.basis = fmt::format(", {} states", found->states);
  }
  verdicts.push_back(level_verdict(key, *a, *b, 1, evidence));
}

}  // namespace routeopd::study
