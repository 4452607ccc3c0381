//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/probe_sentences.h"

#include <fmt/format.h>

#include "routeopd/report/cells.h"
#include "routeopd/report/effects.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

std::optional<Level> level_of(const Json& row, const char* key, const ProbedLevel& of) {
  const auto mean = number_at(row, {key, "mean"}), low = number_at(row, {key, "low"}),
             high = number_at(row, {key, "high"});
  if (!mean || !of.paper) return std::nullopt;
  Level level{.name = of.shown, .paper = *of.paper, .here = 100 * *mean, .interval = {}};
  if (low && high) level.interval = grade::Interval{100 * *mean, 100 * *low, 100 * *high};
  return level;
}

}  // namespace

std::string spread_cell(const Json& row, const char* key) {
  const auto mean = number_at(row, {key, "mean"}), low = number_at(row, {key, "low"}),
             high = number_at(row, {key, "high"});
  if (!mean || !low || !high) return percent(mean, 1);
  return fmt::format("{} {}", percent(mean, 1), interval(*low, *high, 1));
}

std::string step_sentence(const ProbeFiles& probe, const char* key, const ProbedLevel& first,
                          const ProbedLevel& second) {
  const auto level = [&](const ProbedLevel& each) {
    return level_of(probe.row(each.step.name, each.step.intervention), key, each);
  };
  const std::optional<Level> a = level(first), b = level(second);
  if (!a || !b) return "";
  Evidence evidence;
  if (const std::optional<ProbeContrast> found = probe_contrast(probe, first.step, second.step, key)) {
    const grade::Interval& difference = found->difference;
    evidence.difference = grade::Interval{100 * difference.mean, 100 * difference.low, 100 * difference.high};
    evidence.basis = fmt::format(" on the {} states that have both", found->states);
  }
  return level_sentence(key, *a, *b, 1, evidence);
}

}  // namespace routeopd::report
