//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/probe_contrast.h"

#include <algorithm>
#include <map>
#include <vector>

#include "routeopd/base/philox.h"
#include "routeopd/report/effects.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

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

}  // namespace

std::optional<ProbeContrast> probe_contrast(const ProbeFiles& probe, const ProbedStep& first,
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

}  // namespace routeopd::report
