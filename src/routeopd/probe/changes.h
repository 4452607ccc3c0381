// What an intervention did at the states of a bank, measured on exact full-vocabulary distributions in double
// precision (method.md, Diagnostics).
//
// Shapes: S states, M pairs per state, R real ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "routeopd/routing/reference.h"

namespace routeopd::probe {

// One state, before against after.
struct StateChange {
  double fidelity = std::numeric_limits<double>::quiet_NaN();  // NaN: no source mass was removed
  double leakage = 0;
  double mass_after = 0;  // M on the frozen U
};

// The rows of one state; working memory of one thread, used again. Changes are formed from the logits' own
// differences,
//   pi'(v) - pi(v) = pi(v) expm1(d_v - log1p(sum_u pi(u) expm1(d_u))),   d = z' - z,
// and not by subtracting two softmaxes: where a step moves 1e-7 of the mass, that would leave the ratio nine
// digits.
struct StateRows {
  std::vector<double> teacher_R, before_R, change_R;  // probabilities, and what they gain
  void set_before(std::span<const float> teacher_logits_R, std::span<const float> before_logits_R);
  void set_after(std::span<const float> before_logits_R, std::span<const double> after_logits_R);
};

// eqs. app-routing-fidelity (sparse E and D of `state`) and app-background-leakage (full-vocabulary deficit
// set).
StateChange change_of(const routing::reference::Transport& state, const StateRows& rows, double delta_diag);

// All states, and the pairs by which targets are judged.
struct Changes {
  std::vector<double> fidelity_S, leakage_S, mass_after_S;  // NaN: none
  std::vector<double> budget_S;  // B that the arm gave the state; empty: it has none
  std::int32_t pairs = 0;
  std::vector<std::int32_t> source_SM, destination_SM;  // -1: none
  std::vector<double> target_SM, achieved_SM;           // log-odds
};

// Over the pairs with a target of at least delta_target; zeros where there are none.
struct Realization {
  std::int64_t pairs = 0;
  double mae = 0;
  double completion = 0;  // mean of clip(achieved / target, 0, 1)
  double overshoot = 0;   // share of them over target + delta_target
};
Realization realization(const Changes& changes, double delta_target);
// Of the pairs of some states alone.
Realization realization(const Changes& changes, double delta_target, std::span<const std::size_t> states);

double rms_achieved(const Changes& changes);

}  // namespace routeopd::probe
