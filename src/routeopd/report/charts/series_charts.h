// Two kinds of chart that several figures share: small line charts over steps, and middles with their ranges.
// Each gives a block its chart and its table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/report/block.h"

namespace routeopd::report {

// A quantity of a series at a step; one for each seed.
struct CurvePoint {
  std::string name;
  std::int64_t step = 0;
  std::string quantity;  // the small picture's heading: "Accuracy, Avg@16 (%)"
  double value = 0;
};

// One small picture for each quantity and one line for each name, in the order in which they first come;
// several values of one line and step are shown as mean and band.
void draw_curves(const std::vector<CurvePoint>& points, const std::string& description, Block& block);

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

// One picture for each group and one row for each name, in the order in which they come.
void draw_ranges(const std::vector<RangeRow>& ranges, const RangeWords& words, Block& block);

}  // namespace routeopd::report
