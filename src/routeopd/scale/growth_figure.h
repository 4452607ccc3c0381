// The figure of a plan: seconds of a step and memory of a device over the number of devices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/scale/prediction.h"

namespace routeopd::scale {

// 1, 2, 4, … 1024, and the number that was asked for.
inline constexpr std::int64_t kMostDrawn = 1024;
std::vector<std::int64_t> drawn_counts(std::int64_t asked);

// `predictions`: one for each count, in order.
report::Block growth_figure(const std::vector<Prediction>& predictions);

// FILE.json: the Vega-Lite specification; FILE.svg, FILE.png: drawn by vl-convert; FILE.html: a page with the
// figure and its data. Throws UserError for another ending, or where the renderer is missing.
void write_growth_figure(const report::Block& figure, const std::filesystem::path& file);

// Throws UserError for an ending that write_growth_figure() does not take.
void check_figure_name(const std::filesystem::path& file);

}  // namespace routeopd::scale
