// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/component_contrasts.h"

#include <array>

#include "routeopd/report/arms.h"

namespace routeopd::study {
namespace {

// A block of the figure; `paper` is the paper's table that has its arms.
struct Panel {
  report::Component component;
  const char* title;
  const char* paper;
};
constexpr std::array<Panel, 5> kPanels = {{{report::Component::kDestination, "Destination", "destination"},
                                           {report::Component::kUpdateForm, "Update form", "objective"},
                                           {report::Component::kTarget, "Target", "objective"},
                                           {report::Component::kBudget, "Budget", "budget"},
                                           {report::Component::kOurs, "Not in the paper", "objective"}}};

// Controls first, then the main arms among them.
std::vector<std::string> arms_of(report::Component component) {
  std::vector<std::string> names;
  for (const bool main : {false, true}) {
    for (const report::Arm& arm : report::kArms)
      if (arm.component == component && arm.main == main) names.emplace_back(arm.name);
  }
  return names;
}

}  // namespace

Block component_contrasts(const StudyGrades& grades) {
  std::vector<ContrastPoint> points;
  for (const Panel& panel : kPanels) {
    for (const std::string& name : arms_of(panel.component)) {
      const std::optional<Contrast> contrast = grades.contrast(kAblationReference, name);
      if (!contrast) continue;
      const grade::Interval& difference = contrast->difference;
      points.push_back({.block = panel.title,
                        .name = name,
                        .contrast = {100 * difference.mean, 100 * difference.low, 100 * difference.high},
                        .paper = paper_difference(panel.paper, name, kAblationReference, "avg")});
    }
  }
  return component_contrasts_figure(points);
}

Block component_contrasts_figure(const std::vector<ContrastPoint>& points) {
  Block block = titled("component-contrasts", "Matched controls against fixed-mid");
  if (points.empty()) {
    block.missing.emplace_back("No variant can be compared with fixed_mid: the part ablations runs them.");
    return block;
  }
  block.words =
      "Each block varies one family of choices and keeps the rest of the fixed-mid construction, but for "
      "what is "
      "not in the paper: other objectives, and the exact coupling with its adaptive budget. The points are "
      "separate contrasts, no "
      "path from one to the next. Bars are 95 % intervals of the paired difference; a bar that crosses the "
      "line at 0 leaves open whether there is a difference. Open diamonds are the paper's differences.";
  draw_contrasts(points,
                 {.axis = "Avg@n minus fixed-mid's (points)",
                  .description = "Points with 95 % intervals: the accuracy of each variant minus that of "
                                 "fixed-mid, in percentage points, in blocks by what is varied."},
                 block);
  return block;
}

}  // namespace routeopd::study
