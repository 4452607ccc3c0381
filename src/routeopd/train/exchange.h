// The gradients of all ranks, added up. Of the embedding and the head travel the rows that some rank touched,
// not the whole table: 2m rows per token of 151,936.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "routeopd/ranks/group.h"
#include "routeopd/train/loss_gradients.h"

namespace routeopd::train {

// What one rank handed to the others.
struct Exchanged {
  std::int64_t bytes = 0;
  std::int64_t dense_bytes = 0;  // what it would have been with whole tables
  double seconds = 0;

  void add(const Exchanged& more);
};

// `gradients` are those of `loss_gradients`, which all ranks have formed with the same denominator;
// afterwards every rank holds the same bits. One process changes nothing.
Exchanged add_up_gradients(ranks::Group& group, LossGradients& loss_gradients,
                           const std::vector<at::Tensor>& gradients);

}  // namespace routeopd::train
