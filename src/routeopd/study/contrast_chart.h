// Differences with their intervals as points on lines, in panels: what the figures of contrasts share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

struct ContrastPoint {
  std::string block;  // the panel: "Destination"; of one panel alone, empty
  std::string name;   // of the variant
  Estimate contrast;  // points
  std::optional<double> paper;
};

struct ContrastWords {
  std::string axis;         // "Avg@n minus fixed-mid's (points)"
  std::string description;  // for those who cannot see it
};

// Gives the block its chart and its table: a panel for each `block` and a row for each name, in the order in
// which they come.
void draw_contrasts(const std::vector<ContrastPoint>& points, const ContrastWords& words, Block& block);

}  // namespace routeopd::study
