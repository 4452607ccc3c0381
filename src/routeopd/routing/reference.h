// The specification: the paper's equations as plain double-precision loops, in the paper's order and under
// its equations' names. Every fast kernel is tested against this file. Nothing here is meant to be quick.
//
// Vectors over U are indexed by the position in Transport::ids, which ascend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/routing/options.h"

namespace routeopd::routing::reference {

using Ids = std::vector<std::int32_t>;
using Values = std::vector<double>;

// Where `id` stands in ascending ids. Throws UserError where it is not among them.
std::size_t position_in(const Ids& ids, std::int32_t id);

// TopK of a model: the k largest logits, ties to the lower id. k is capped at their number.
Ids top_k(std::span<const double> logits, std::int32_t k);

// eq. topk-union. Ids that are -inf in the student are skipped: no finite step can move them.
Ids support(std::span<const double> student_logits, std::span<const double> teacher_logits, std::int32_t k);

// eq. union-distributions: softmax of the given logits; -inf gives 0.
Values softmax(std::span<const double> logits);

double log_sum_exp(std::span<const double> logits);

// Everything that is known of one state before any pair is drawn.
struct Transport {
  Ids ids;                      // U
  Values student_logits;        // on U
  Values p_student, p_teacher;  // eq. union-distributions
  Values excess, deficit;       // eq. excess-deficit
  double mass = 0;              // eq. mismatch-mass, M = (sum e + sum d) / 2
  bool routed = false;          // M > delta_M
  Values q_minus, q_plus;       // eq. transport-marginals; empty where M = 0
  Values potential;             // eq. teacher-token-potential, g
  Values bounded;               // eq. bounded-potential-target, phi_B(g); empty where M = 0
  int n_deficit = 0;            // n = |D|
  double concentration = 0;     // eq. demand-concentration
  double budget = 0;            // eq. transport-budget
};

Transport transport(const Ids& ids, std::span<const double> student_logits_on_u,
                    std::span<const double> teacher_logits_on_u, const ObjectiveOptions& options);

double concentration(std::span<const double> q_plus, int n_deficit);
double transport_budget(double concentration, const ObjectiveOptions& options);
double bounded_potential(double potential, double budget);

// A pair to move. For the destination controls `destination` is the control's token b', while `target` is
// that of the pair (a, b) that was drawn from the coupling.
struct Pair {
  std::int32_t source = 0;
  std::int32_t destination = 0;
  double target = 0;
};

// The target of the pair of ids (a, b), both in U. Throws UserError where they are not.
double pair_target(const Transport& state, std::int32_t source, std::int32_t destination,
                   const ObjectiveOptions& options);

// eq. routeopd-objective on the given pairs, as a function of the full current and old logits, with its
// gradient on the current logits (index = id, zero where nothing pulls). `deltas` receives eq.
// pairwise-logodds-change of each pair, or, for the one-sided arms, the change of the one log-probability.
struct LossAndGradient {
  double loss = 0;
  Values gradient;
};
LossAndGradient pair_loss(const Transport& state, std::span<const Pair> pairs,
                          std::span<const double> old_logits, std::span<const double> current_logits,
                          const ObjectiveOptions& options, Values* deltas = nullptr);

// The expectation of the pair loss over the whole coupling q- x q+, as the double sum (shared potential, both
// sides).
LossAndGradient exact_loss(const Transport& state, std::span<const double> old_logits,
                           std::span<const double> current_logits, const ObjectiveOptions& options);

}  // namespace routeopd::routing::reference
