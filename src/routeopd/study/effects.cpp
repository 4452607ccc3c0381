// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/effects.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

#include "routeopd/table/cells.h"

namespace routeopd::study {
namespace {

using table::listed;
using table::number;
using table::signed_number;
using table::significant;

std::string value_text(double value, int digits) {
  return digits == kSignificant ? significant(value) : number(value, digits);
}

std::string level_text(const Level& level, int digits) {
  const std::string here = value_text(level.here, digits);
  if (!level.interval) return here;
  return fmt::format("{} [{}, {}]", here, value_text(level.interval->low, digits),
                     value_text(level.interval->high, digits));
}

// What the order of two levels is worth without a paired difference. `sign` is 1 where the paper has the
// first one higher.
std::string order_text(const Level& first, const Level& second, double sign, int digits,
                       const Evidence& evidence) {
  const double difference = (first.here - second.here) * sign;
  if (first.interval && second.interval) {
    const bool apart =
        first.interval->low > second.interval->high || first.interval->high < second.interval->low;
    return !apart ? "the intervals overlap, not shown" : difference > 0 ? "shown" : "the opposite";
  }
  std::size_t seeds = 0, same = 0;
  for (const std::optional<double>& own : evidence.per_seed) {
    if (!own) continue;
    ++seeds;
    if (*own * sign > 0) ++same;
  }
  const std::string basis =
      seeds == 0 ? "no interval"
                 : fmt::format("in {} of {} seed{} as in the paper", same, seeds, seeds == 1 ? "" : "s");
  if (value_text(first.here, digits) == value_text(second.here, digits))
    return fmt::format("no difference at this precision ({})", basis);
  return fmt::format("{} order ({})", difference > 0 ? "the same" : "the opposite", basis);
}

}  // namespace

std::string points(const grade::Interval& change) {
  return fmt::format("{} [{}, {}]", table::points(change.mean), table::points(change.low),
                     table::points(change.high));
}

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

std::string order_words(const std::string& reference, const std::vector<Difference>& differences) {
  std::vector<std::string> above, below, open, parts;
  for (const Difference& each : differences)
    (each.here.low > 0 ? above : each.here.high < 0 ? below : open).push_back(each.name);
  if (!above.empty()) parts.push_back(listed(above) + (above.size() == 1 ? " lies" : " lie") + " above it");
  if (!below.empty()) parts.push_back(listed(below) + (below.size() == 1 ? " lies" : " lie") + " below it");
  if (!open.empty()) parts.push_back("for " + listed(open) + " the interval holds 0");
  return parts.empty() ? "" : fmt::format("Against {}: {}", reference, listed(parts));
}

std::string level_sentence(const std::string& what, const Level& first, const Level& second, int digits,
                           const Evidence& evidence) {
  const bool higher = first.paper > second.paper;
  std::string difference, found;
  if (evidence.difference) {
    const grade::Interval& here = *evidence.difference;
    difference =
        fmt::format(", a difference of {} [{}, {}]{}", signed_number(here.mean, digits),
                    signed_number(here.low, digits), signed_number(here.high, digits), evidence.basis);
    found = name_of(outcome_of(first.paper - second.paper, here));
  } else {
    found = order_text(first, second, higher ? 1 : -1, digits, evidence);
  }
  return fmt::format("The paper has {} {} for {} than for {} ({} against {}); here {} against {}{}: {}.",
                     higher ? "higher" : "lower", what, first.name, second.name,
                     value_text(first.paper, digits), value_text(second.paper, digits),
                     level_text(first, digits), level_text(second, digits), difference, found);
}

}  // namespace routeopd::study
