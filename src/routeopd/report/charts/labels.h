// Labels of points in a plot that cover neither each other nor the points. For charts/ and the figures of the
// study.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "routeopd/report/charts/spec.h"

namespace routeopd::report {

// A plot with fixed ends of its axes, so that places in it are known in pixels.
struct Plot {
  Extent x, y;
  double width = 0, height = 0;  // pixels

  // From the left and from the top.
  double across(double value) const { return (value - x.low) / (x.high - x.low) * width; }
  double down(double value) const { return (y.high - value) / (y.high - y.low) * height; }
};

// A point in pixels, and the words that belong beside it.
struct LabelledPoint {
  double x = 0, y = 0, radius = 4;
  std::string label;           // empty: a mark without words, that labels keep off
  double left = 0, right = 0;  // of a bar through the point, from it
};

struct LabelPlace {
  double dx = 0,
         dy = 0;      // pixels from the point to the middle of the label's height, and to its aligned side
  std::string align;  // left | center | right
  double lead_x = 0, lead_y = 0;  // where a line from the point to a label that is not beside it ends; else 0
};

// Each label beside its point, or where it would cover other points, labels or the plot's edge, at a distance
// with a line to it. Letters are taken to be 0.58 of `font` wide.
std::vector<LabelPlace> place_labels(std::span<const LabelledPoint> points, double width, double height,
                                     double font = 11);

// What label_layer() and lead_layer() read of a row whose point is at (x, y) of the plot.
void put_place(const LabelPlace& place, const Plot& plot, double x, double y, Json& row);

// A text mark at "dx", "dy" and "align" of each row, with its "label".
Json label_layer(const Json& x, const Json& y);

// The lines from points to labels; it belongs under the points.
Json lead_layer(const Json& x, const Json& y);

}  // namespace routeopd::report
