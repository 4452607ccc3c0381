// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/main_contrasts.h"

#include <fmt/format.h>

#include "routeopd/report/charts/palette.h"

namespace routeopd::study {

Block main_contrasts(const StudyView& view) {
  const std::string reference = main_reference(view);
  std::vector<ContrastPoint> points;
  for (const std::string& name : compared_names(view)) {
    const std::optional<Contrast> contrast =
        name == reference ? std::nullopt : view.grades.contrast(reference, name);
    if (!contrast) continue;
    const grade::Interval& difference = contrast->difference;
    points.push_back({.block = {},
                      .name = name,
                      .contrast = {100 * difference.mean, 100 * difference.low, 100 * difference.high},
                      .paper = paper_difference("main-2", name, reference, "avg")});
  }
  return main_contrasts_figure(points, reference);
}

Block main_contrasts_figure(const std::vector<ContrastPoint>& points, const std::string& reference) {
  const std::string shown = report::shown_series(reference);
  Block block = titled("main-contrasts", fmt::format("Accuracy against {}", visible(shown)));
  if (points.empty()) {
    block.missing.emplace_back("No two arms have evaluations of the same seed that can be read.");
    return block;
  }
  block.words = fmt::format(
      "Paired differences from {} with their 95 % intervals; one that crosses 0 leaves the order open. Open "
      "diamonds are the paper's.",
      visible(shown));
  draw_contrasts(points,
                 {.axis = fmt::format("Avg@n minus {}'s (points)", visible(shown)),
                  .description = "Points with 95 % intervals: the accuracy of each arm minus that of the "
                                 "reference, in percentage points."},
                 block);
  return block;
}

}  // namespace routeopd::study
