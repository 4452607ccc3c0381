// Rows of logits over the whole vocabulary at the states of a bank, a block of states at a time: [S, V] is
// never held.
//
// Shapes: S states, C of them in a block, H and X hidden sizes (student, teacher), R real ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <span>

namespace routeopd::probe {

// States whose rows are held at a time: 32 rows of 151,669 ids are 19 MB per model.
inline constexpr std::int64_t kBlockStates = 32;

// Called for every state, from several threads at once: both models' logits at the real ids.
using RowVisitor =
    std::function<void(std::size_t state, std::span<const float> first_R, std::span<const float> second_R)>;

void walk_rows(const at::Tensor& first_SH, const at::Tensor& first_head_VH, const at::Tensor& second_SX,
               const at::Tensor& second_head_UX, std::int64_t real_ids, const RowVisitor& visit);

// The same with a third model: the teacher beside the student before and after a step.
using ThreeRowVisitor = std::function<void(std::size_t state, std::span<const float> first_R,
                                           std::span<const float> second_R, std::span<const float> third_R)>;
void walk_rows(const at::Tensor& first_SH, const at::Tensor& first_head_VH, const at::Tensor& second_SX,
               const at::Tensor& second_head_UX, const at::Tensor& third_SH, const at::Tensor& third_head_VH,
               std::int64_t real_ids, const ThreeRowVisitor& visit);

// Of one row, in double precision.
struct RowSums {
  double logsumexp = 0;
  double entropy = 0;  // nats
};
RowSums row_sums(std::span<const float> logits_R);

}  // namespace routeopd::probe
