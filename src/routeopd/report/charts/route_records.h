// Route by route: the change of log-odds that was asked for and the one that came.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/run_files.h"

namespace routeopd::report {

struct RoutePoint {
  double target = 0, achieved = 0;      // log-odds
  std::optional<double> concentration;  // of its state
};
// `of`: whose routes, in words.
Block route_records_figure(const std::vector<RoutePoint>& routes, const std::string& of);

// The routes of an arm of a probe under `intervention`, with the concentration of their states.
Block route_records_of(const ProbeFiles& probe, const std::string& name, const std::string& intervention);

}  // namespace routeopd::report
