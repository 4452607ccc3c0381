// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/effects.h"

#include <fmt/format.h>

#include <array>
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
    return !apart           ? name_of(Outcome::kNotShown) + " (the intervals overlap)"
           : difference > 0 ? name_of(Outcome::kShown)
                            : name_of(Outcome::kOpposite);
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
  return fmt::format("{} order ({})", difference > 0 ? "same" : "other", basis);
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

Verdict effect_verdict(const std::string& what, const std::string& subject, const std::string& reference,
                       double paper, const grade::Interval& here) {
  return {.effect = fmt::format("{}, {} over {}", what, subject, reference),
          .paper = signed_number(paper, 2),
          .here = points(here),
          .outcome = name_of(outcome_of(paper, here))};
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

Verdict level_verdict(const std::string& what, const Level& first, const Level& second, int digits,
                      const Evidence& evidence) {
  const auto against = [](const std::string& a, const std::string& b) {
    return fmt::format("{} against {}", a, b);
  };
  Verdict verdict{.effect = fmt::format("{}, {} over {}", what, first.name, second.name),
                  .paper = against(value_text(first.paper, digits), value_text(second.paper, digits)),
                  .here = against(value_text(first.here, digits), value_text(second.here, digits)),
                  .outcome = {}};
  if (evidence.difference) {
    const grade::Interval& here = *evidence.difference;
    verdict.here +=
        fmt::format(": {} [{}, {}]{}", signed_number(here.mean, digits), signed_number(here.low, digits),
                    signed_number(here.high, digits), evidence.basis);
    verdict.outcome = name_of(outcome_of(first.paper - second.paper, here));
  } else {
    verdict.here = against(level_text(first, digits), level_text(second, digits));
    verdict.outcome = order_text(first, second, first.paper > second.paper ? 1 : -1, digits, evidence);
  }
  return verdict;
}

Verdict change_verdict(const std::string& what, const Change& paper, const Change& here, int digits) {
  const auto text = [&](const Change& change) {
    return fmt::format("{} → {}", value_text(change.first, digits), value_text(change.last, digits));
  };
  const bool same = (paper.last > paper.first) == (here.last > here.first) && here.first != here.last;
  return {.effect = what,
          .paper = text(paper),
          .here = text(here),
          .outcome = same ? "same direction (no interval)" : "other direction (no interval)"};
}

report::Block verdict_table(const std::vector<Verdict>& verdicts) {
  report::Block block = report::titled("verdicts", "The paper's effects, and what this study shows of them");
  if (verdicts.empty()) return block;
  table::TextTable table({{"part", table::Align::kLeft},
                          {"effect", table::Align::kLeft},
                          {"paper", table::Align::kLeft},
                          {"here [95 %]", table::Align::kLeft},
                          {"outcome", table::Align::kLeft}});
  std::array<std::size_t, 3> counts{};
  for (const Verdict& verdict : verdicts) {
    table.add({verdict.part, verdict.effect, verdict.paper, verdict.here, verdict.outcome});
    for (const Outcome outcome : {Outcome::kShown, Outcome::kNotShown, Outcome::kOpposite})
      if (verdict.outcome.starts_with(name_of(outcome))) ++counts[static_cast<std::size_t>(outcome)];
  }
  const std::size_t decided = counts[0] + counts[1] + counts[2];
  block.words = fmt::format(
      "Of {} effects of the paper {} {} shown here, {} not shown (the interval holds 0) and {} the opposite",
      verdicts.size(), counts[0], counts[0] == 1 ? "is" : "are", counts[1], counts[2]);
  block.words += decided == verdicts.size()
                     ? "."
                     : fmt::format("; {} have no interval to decide by.", verdicts.size() - decided);
  block.table = std::move(table);
  return block;
}

}  // namespace routeopd::study
