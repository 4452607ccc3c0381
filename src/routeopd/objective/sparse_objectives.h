// The objectives that read a few logits of each state and need no LM-head product: the routed objective on
// sampled pairs (eq. routeopd-objective), through the pair head; the exact coupling and the union KLs (ours),
// through the gather head at the ids of U. And the rows of pairs, which the one-sided arms read as well.
//
// Shapes: T states of a micro-batch, M pairs per state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>

#include "routeopd/objective/objective.h"

namespace routeopd::objective {

std::unique_ptr<Objective> make_pair_objective(const routing::ObjectiveOptions& options,
                                               model::Backend backend);
std::unique_ptr<Objective> make_union_objective(const routing::ObjectiveOptions& options,
                                                model::Backend backend);

// The pairs of a micro-batch's states: views into Routes, and the ids as tensors over the same memory.
struct PairRows {
  explicit PairRows(const LearnerBatch& batch);

  std::int64_t tokens = 0;
  std::int64_t pairs = 0;
  std::span<const std::int32_t> source, destination;  // [T * M], -1: no pair
  std::span<const float> target, old;                 // [T * M]
  std::span<float> kept;                              // [T * M]: `old`, to be filled; empty: it is known
  std::span<const float> engine;                      // [T * M]: as the rollout's engine gave them
  std::span<const float> weight;                      // [T]
  double denominator = 1;
  at::Tensor source_TM, destination_TM;  // int32

  std::int64_t pairs_present() const;
};

// (w / m) sum over pairs of h_kappa(Delta - target) at state t, divided by the denominator, with
// Delta = values - old; writes the gradient on `values` and adds sum of Delta^2 to `change_squares`. `values`
// are the old values where such are to be kept.
double pair_token_loss(const PairRows& rows, std::int64_t t, std::span<const float> values,
                       std::span<float> grad, float kappa, double& change_squares);

}  // namespace routeopd::objective
