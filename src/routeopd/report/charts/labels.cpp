// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "routeopd/report/charts/palette.h"

namespace routeopd::report {
namespace {

struct Box {
  double left, top, right, bottom;
};

double shared_area(const Box& a, const Box& b) {
  return std::max(0.0, std::min(a.right, b.right) - std::max(a.left, b.left)) *
         std::max(0.0, std::min(a.bottom, b.bottom) - std::max(a.top, b.top));
}

double area_of_box(const Box& box) {
  return (box.right - box.left) * (box.bottom - box.top);
}

double characters(std::string_view text) {
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Whether the line from (x, y) to (to_x, to_y) goes through a box (Liang and Barsky).
bool goes_through(double x, double y, double to_x, double to_y, const Box& box) {
  double from = 0, to = 1;
  const std::array<std::array<double, 2>, 4> edges = {{{x - to_x, x - box.left},
                                                       {to_x - x, box.right - x},
                                                       {y - to_y, y - box.top},
                                                       {to_y - y, box.bottom - y}}};
  for (const auto& [slope, room] : edges) {
    if (slope == 0) {
      if (room < 0) return false;
      continue;
    }
    const double at = room / slope;
    if (slope < 0)
      from = std::max(from, at);
    else
      to = std::min(to, at);
  }
  return from < to;
}

// Rings around a point on which labels are tried, in pixels beyond its edge; on the first there is no line.
constexpr std::array<double, 7> kRings = {3, 14, 26, 40, 56, 74, 95};
constexpr int kAngles = 16;

struct Candidate {
  LabelPlace place;
  Box box{};
  double ring = 0;  // beyond the first
};

std::vector<Candidate> candidates_of(const LabelledPoint& point, double font) {
  const double wide = 0.58 * font * characters(point.label), tall = 1.15 * font;
  std::vector<Candidate> all;
  for (const double ring : kRings) {
    for (int angle = 0; angle < kAngles; ++angle) {
      // Right, left, above and below come first: of equal places the first is taken.
      static constexpr std::array<int, kAngles> kOrder = {0,  8, 12, 4, 14, 2,  10, 6,
                                                          15, 1, 9,  7, 13, 11, 3,  5};
      const double turn =
          2 * std::numbers::pi * kOrder[static_cast<std::size_t>(angle)] / static_cast<double>(kAngles);
      const double right = std::cos(turn), below = std::sin(turn);
      const bool beside = std::abs(below) < 1e-9;
      const double bar = !beside ? 0 : right > 0 ? point.right : point.left;
      const double reach = std::max(point.radius, bar) + ring;
      Candidate each;
      each.ring = ring - kRings[0];
      const bool centred = std::abs(right) < 0.2;
      each.place.dx = centred ? 0 : right * reach;
      each.place.dy = below * (reach + (centred ? tall / 2 : tall / 3));
      each.place.align = centred ? "center" : right > 0 ? "left" : "right";
      const double left = point.x + each.place.dx - (centred ? wide / 2 : right > 0 ? 0 : wide);
      const double middle = point.y + each.place.dy;
      each.box = {left, middle - tall / 2, left + wide, middle + tall / 2};
      if (each.ring > 0) {
        each.place.lead_x = std::clamp(point.x, each.box.left - 2, each.box.right + 2) - point.x;
        each.place.lead_y = std::clamp(point.y, each.box.top, each.box.bottom) - point.y;
      }
      all.push_back(std::move(each));
    }
  }
  return all;
}

// How much is covered, in square pixels; a label that is far costs a little, and a line through something as
// much as covering a corner of it.
class LabelCosts {
 public:
  LabelCosts(std::span<const LabelledPoint> points, double width, double height)
      : points_(points), width_(width), height_(height), labels_(points.size()) {
    for (const LabelledPoint& point : points) {
      marks_.push_back(
          {point.x - point.radius, point.y - point.radius, point.x + point.radius, point.y + point.radius});
      bars_.push_back({point.x - point.left, point.y - 1.5, point.x + point.right, point.y + 1.5});
    }
  }

  void put(std::size_t own, const Candidate& candidate) { labels_[own] = candidate; }
  const Candidate& at(std::size_t own) const { return *labels_[own]; }

  double of(std::size_t own, const Candidate& candidate) const {
    const LabelledPoint& point = points_[own];
    const auto lead_meets = [&](const Box& box) {
      return candidate.ring > 0 && goes_through(point.x, point.y, point.x + candidate.place.lead_x,
                                                point.y + candidate.place.lead_y, box);
    };
    double cost = 6 * (area_of_box(candidate.box) - shared_area(candidate.box, {0, 0, width_, height_}));
    cost += 1.2 * candidate.ring + (candidate.ring > 0 ? 8 : 0);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      cost += 3 * shared_area(candidate.box, marks_[i]) + 2 * shared_area(candidate.box, bars_[i]);
      if (i == own) continue;
      if (lead_meets(marks_[i])) cost += 40;
      if (!labels_[i]) continue;
      cost += 5 * shared_area(candidate.box, labels_[i]->box);
      if (lead_meets(labels_[i]->box)) cost += 80;
      const LabelPlace& other = labels_[i]->place;
      if (labels_[i]->ring > 0 && goes_through(points_[i].x, points_[i].y, points_[i].x + other.lead_x,
                                               points_[i].y + other.lead_y, candidate.box))
        cost += 80;
    }
    return cost;
  }

 private:
  std::span<const LabelledPoint> points_;
  double width_, height_;
  std::vector<Box> marks_, bars_;
  std::vector<std::optional<Candidate>> labels_;  // that have a place
};

}  // namespace

std::vector<LabelPlace> place_labels(std::span<const LabelledPoint> points, double width, double height,
                                     double font) {
  LabelCosts costs(points, width, height);
  // After the first pass every label may move away from those that came after it.
  constexpr int kPasses = 4;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].label.empty()) continue;
      double least = HUGE_VAL;
      Candidate best;
      for (Candidate& candidate : candidates_of(points[i], font)) {
        const double cost = costs.of(i, candidate);
        if (cost >= least - 1e-9) continue;
        least = cost;
        best = std::move(candidate);
      }
      costs.put(i, best);
    }
  }
  std::vector<LabelPlace> places;
  for (std::size_t i = 0; i < points.size(); ++i)
    places.push_back(points[i].label.empty() ? LabelPlace() : costs.at(i).place);
  return places;
}

void put_place(const LabelPlace& place, const Plot& plot, double x, double y, Json& row) {
  row["dx"] = place.dx;
  row["dy"] = place.dy;
  row["align"] = place.align;
  row["lead_x"] = finite(x + place.lead_x * (plot.x.high - plot.x.low) / plot.width);
  row["lead_y"] = finite(y - place.lead_y * (plot.y.high - plot.y.low) / plot.height);
}

Json label_layer(const Json& x, const Json& y) {
  return {{"mark",
           {{"type", "text"},
            {"baseline", "middle"},
            {"align", {{"expr", "datum.align"}}},
            {"dx", {{"expr", "datum.dx"}}},
            {"dy", {{"expr", "datum.dy"}}}}},
          {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "label"}, {"type", "nominal"}}}}}};
}

Json lead_layer(const Json& x, const Json& y) {
  return {{"mark", {{"type", "rule"}, {"color", chart_color("faint")}, {"strokeWidth", 0.75}}},
          {"encoding", {{"x", x}, {"y", y}, {"x2", {{"field", "lead_x"}}}, {"y2", {{"field", "lead_y"}}}}}};
}

}  // namespace routeopd::report
