// Small line charts over steps, for studies and for runs alike. Internal to charts/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/report/charts/study_charts.h"

namespace routeopd::report {

// Gives the block its chart and table: a small picture a quantity and a line a name, each in the order in which they first
// come; several values of one line and step are shown as mean and band.
void draw_curves(const std::vector<DynamicsPoint>& points, const std::string& description, Block& block);

}  // namespace routeopd::report
