// How far a change went at the states of a bank, row by row over the whole vocabulary, whether it was made by
// hand or by an update of the weights.
//
// Shapes: S states, R real ids, V rows of the student's LM head and H its hidden size, U and X the teacher's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "routeopd/probe/bank.h"
#include "routeopd/probe/changes.h"

namespace routeopd::probe {

// The model at one end of a change.
struct Endpoint {
  at::Tensor hidden_SH;
  at::Tensor head_VH;
};

// Called with every row of logits after a change, from several threads: `pair` counts the pairs of
// pair_isolated, -1 elsewhere.
using AfterRow = std::function<void(std::size_t state, std::int32_t pair, std::span<const double> logits_R)>;

// (z'_b - z'_a) - (z_b - z_a)
double log_odds_change(std::span<const double> after_R, std::span<const float> before_R, std::int32_t source,
                       std::int32_t destination);

// One row after a change: fidelity, leakage and mass of state s, what its pairs achieved, and the squared
// changes of the bank's pairs, added up.
void measure_row(std::size_t s, StateRows& rows, std::span<const float> before_R,
                 std::span<const double> after_R, const Frozen& frozen, double delta_diag, Changes& changes,
                 std::vector<double>& squares_S);
double rms_over_pairs(const std::vector<double>& squares_S, const Frozen& frozen);

// Both ends rescored exactly at the bank's states; fills all but the pairs and their targets. Returns the RMS
// over the frozen pairs.
double rescore_rows(const Bank& bank, const Frozen& frozen, const Endpoint& before, const Endpoint& after,
                    const at::Tensor& teacher_head_UX, Changes& changes, const AfterRow& seen);

// A state without a route has neither sources nor destinations to judge a change by: it has no value, whether
// its logits were set by hand or moved with the shared weights.
void skip_unrouted(const Frozen& frozen, std::initializer_list<std::vector<double>*> measures_S);

// Between two sets of weights of the bank's student, by the bank's frozen values and pairs.
Changes change_between(const Bank& bank, const Endpoint& before, const Endpoint& after,
                       const at::Tensor& teacher_head_UX);

}  // namespace routeopd::probe
