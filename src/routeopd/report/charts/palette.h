// Colours, shapes and dashes of charts. Hues are Okabe and Ito's, told apart with any kind of colour
// blindness, some made darker for white paper; a shape or a dash says the same again, for print in grey.
//
// Specifications hold the light colours, so that they draw alike anywhere. A page puts a variable of its
// style in the place of each (svg.h), which a dark screen sets to the other colour.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/report/mass_colors.h"

namespace routeopd::report {

struct ChartColor {
  std::string_view name;  // of the style's variable, without its dashes
  Rgb light, dark;
};

// The grounds and inks are those of page_style.h.
inline constexpr std::array<ChartColor, 11> kChartColors = {{
    {"ground", {0xFF, 0xFF, 0xFF}, {0x16, 0x16, 0x16}},
    {"ink", {0x1A, 0x1A, 0x1A}, {0xE8, 0xE8, 0xE8}},
    {"faint", {0x59, 0x59, 0x59}, {0xA8, 0xA8, 0xA8}},
    {"line", {0xC8, 0xC8, 0xC8}, {0x44, 0x44, 0x44}},
    {"blue", {0x00, 0x72, 0xB2}, {0x4B, 0xA3, 0xE3}},
    {"vermillion", {0xD5, 0x5E, 0x00}, {0xFF, 0x8A, 0x3D}},
    {"green", {0x00, 0x8A, 0x64}, {0x2C, 0xCB, 0x9A}},
    {"purple", {0xB8, 0x5C, 0x90}, {0xE5, 0x9C, 0xC5}},
    {"amber", {0xA8, 0x74, 0x00}, {0xF0, 0xB4, 0x29}},
    {"sky", {0x3C, 0x8D, 0xBF}, {0x8F, 0xD0, 0xF5}},
    {"grey", {0x76, 0x76, 0x76}, {0x9A, 0x9A, 0x9A}},
}};

// "#0072b2": the light colour of that name, which must be one of the above.
std::string chart_color(std::string_view name);

// ":root{--blue:#0072b2;…}" and the dark ones in their media rule; without ground, ink, faint and line.
std::string chart_color_style();

struct SeriesStyle {
  std::string color;         // "#0072b2"
  std::string shape;         // of a point, as Vega-Lite names it
  std::vector<double> dash;  // of a line; empty: solid
};

// How an arm is drawn, the same in every figure, and a variant of it that is drawn alone. `place`: its place
// among those that are drawn, which chooses where the name is none of ours.
SeriesStyle style_of_series(std::string_view name, std::size_t place);

// "RouteOPD", "sampled-RKL", "fixed-mid", "RouteOPD, k = 64"; names that are none of ours stay as they are.
std::string shown_series(std::string_view name);

// Scales for the encodings color, shape and strokeDash of these series, in this order: {"domain": names,
// "range": …}. Arms have their own styles. No other series has the style of an arm or of one before it,
// neither as a line (colour and dash) nor as a marker (colour and shape), as long as there are such: for some
// fifty series.
struct SeriesScales {
  Json color, shape, dash;
};
SeriesScales scales_of_series(const std::vector<std::string>& names);

}  // namespace routeopd::report
