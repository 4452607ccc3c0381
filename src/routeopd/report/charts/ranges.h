// Rows of middles with their ranges, in groups. Internal to charts/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "routeopd/report/block.h"

namespace routeopd::report {

struct RangeRow {
  std::string group, name;
  double middle = 0;
  std::optional<double> low, high;              // the thin line
  std::optional<double> inner_low, inner_high;  // the thick one
};

struct RangeWords {
  std::string axis;                                      // "accuracy, Avg@n (%)"
  std::string description;                               // for those who cannot see it
  std::string middle, low, high, inner_low, inner_high;  // titles of the table's columns
  int digits = 2;
};

// Gives the block its chart and table: a picture a group, a row a name, in the order in which they come.
void draw_ranges(const std::vector<RangeRow>& ranges, const RangeWords& words, Block& block);

}  // namespace routeopd::report
