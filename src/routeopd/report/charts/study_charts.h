// The paper's figures, drawn from a study's numbers. Each takes plain numbers and gives a block: the specification, its
// data as a table, and what it shows. Without data the block says what is missing. Shares are percent here, masses and
// log-odds as they are.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/report/block.h"

namespace routeopd::report {

// A number with its interval where there is one.
struct Estimate {
  double value = 0;
  std::optional<double> low, high;
};

struct CostPoint {
  std::string name;   // of the variant
  Estimate overhead;  // of a step's time over sampled_rkl's, percent
  Estimate accuracy;  // Avg@n, percent
  double peak_bytes = 0;
  double k = 0;  // of a variant of the k sweep, by which its line goes; 0: another arm
};
Block cost_tradeoff_figure(const std::vector<CostPoint>& points);

struct ContrastPoint {
  std::string block;  // "Destination"
  std::string name;   // of the variant
  Estimate contrast;  // Avg@n minus fixed_mid's, points
  std::optional<double> paper;
};
Block component_contrasts_figure(const std::vector<ContrastPoint>& points);

struct PhasePoint {
  std::string name;
  double fidelity = 0, leakage = 0;  // percent
  std::optional<double> accuracy;    // percent
};
struct PhaseCheckpoint {
  std::int64_t step = 0;
  double fidelity = 0, leakage = 0;
};
Block phase_portrait_figure(const std::vector<PhasePoint>& arms,
                            const std::vector<PhaseCheckpoint>& checkpoints);

// A quantity of an arm at a step, one a seed.
struct DynamicsPoint {
  std::string name;
  std::int64_t step = 0;
  std::string quantity;  // the small picture's heading: "Accuracy, Avg@16 (%)"
  double value = 0;
};
Block dynamics_figure(const std::vector<DynamicsPoint>& points);

struct LabelShare {
  std::string name;   // of the arm
  std::string label;  // correct | reasoning | arithmetic | premature_stop | format | unjudged
  double share = 0;   // percent
};
Block composition_figure(const std::vector<LabelShare>& shares);

struct RoutePoint {
  double target = 0, achieved = 0;      // log-odds
  std::optional<double> concentration;  // of its state
};
Block route_records_figure(const std::vector<RoutePoint>& routes, const std::string& of);

}  // namespace routeopd::report
