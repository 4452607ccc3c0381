//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/effects.h"

#include <fmt/format.h>

#include <cmath>

#include "routeopd/report/cells.h"

namespace routeopd::report {
namespace {

std::string level_text(const Level& level, int digits) {
  if (!level.interval) return number(level.here, digits);
  return fmt::format("{} [{}, {}]", number(level.here, digits), number(level.interval->low, digits),
                     number(level.interval->high, digits));
}

}  // namespace

Outcome outcome_of(double paper, const grade::Interval& here) {
  if (here.low <= 0 && here.high >= 0) return Outcome::kNotShown;
  return (here.low > 0) == (paper > 0) ? Outcome::kShown : Outcome::kOpposite;
}

std::string name_of(Outcome outcome) {
  return outcome == Outcome::kShown ? "shown" : outcome == Outcome::kNotShown ? "not shown" : "the opposite";
}

std::string effect_sentence(const std::string& subject, const std::string& reference, double paper,
                            const grade::Interval& here) {
  return fmt::format("The paper has {} {} {} by {}; here the difference is {}: {}.", subject,
                     paper < 0 ? "below" : "above", reference, number(std::abs(paper), 2), points(here),
                     name_of(outcome_of(paper, here)));
}

std::string level_sentence(const std::string& what, const Level& first, const Level& second, int digits) {
  const bool higher = first.paper > second.paper;
  const double difference = (first.here - second.here) * (higher ? 1 : -1);
  std::string found;
  if (first.interval && second.interval) {
    const bool apart =
        first.interval->low > second.interval->high || first.interval->high < second.interval->low;
    found = !apart ? "the intervals overlap, not shown" : difference > 0 ? "shown" : "the opposite";
  } else {
    found = difference > 0   ? "the same order (no interval)"
            : difference < 0 ? "the opposite order (no interval)"
                             : "no difference";
  }
  return fmt::format("The paper has {} {} for {} than for {} ({} against {}); here {} against {}: {}.",
                     higher ? "higher" : "lower", what, first.name, second.name, number(first.paper, digits),
                     number(second.paper, digits), level_text(first, digits), level_text(second, digits),
                     found);
}

}  // namespace routeopd::report
