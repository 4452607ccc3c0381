// How far a student is from its teacher at the states of a bank, exactly, over the whole vocabulary:
//
//   mass         1/2 sum_U |p_S - p_T| on the bank's frozen supports U, both renormalised there
//   forward_kl   sum_v p_T(v) log(p_T(v) / p_S(v)), nats
//   reverse_kl   sum_v p_S(v) log(p_S(v) / p_T(v)), nats
//
// Any student of the bank's vocabulary will do, a checkpoint in particular: supports and teacher stay the
// bank's own, so that students are compared on the same states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "routeopd/model/model.h"
#include "routeopd/probe/bank.h"

namespace routeopd::probe {

struct Distances {
  std::vector<double> mass_S, forward_kl_S, reverse_kl_S;
};

Distances distances_at(const Bank& bank, const model::Model& student, const at::Tensor& teacher_head_UX);

}  // namespace routeopd::probe
