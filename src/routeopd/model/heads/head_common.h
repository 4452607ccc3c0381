// What the sparse heads (pair, gather) share besides head.h: the checks of their arguments, made before any
// memory is touched, the choice of the backend, and the ATen form of the row sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "routeopd/model/heads/head_gradient.h"

namespace routeopd::model {

// Throws UserError, in the name of `head`, unless hidden [T,H] and weight [V,H] are contiguous matrices of
// one device, both float64 or each float32 or bfloat16, and every row and token has an int32 index.
void check_head_inputs(std::string_view head, const at::Tensor& hidden_TH, const at::Tensor& weight_VH);

// The same for the gradients of those two: grad_hidden [T,H] contiguous in accumulate_type(), `gradient` of
// shape [V,H].
void check_head_gradients(std::string_view head, const at::Tensor& hidden_TH, const at::Tensor& weight_VH,
                          const at::Tensor& grad_hidden_TH, const HeadGradient& gradient);

// float64 for float64, float32 for all others: the type of sums, values and gradients.
at::ScalarType accumulate_type(const at::Tensor& tensor);

// Whether the Highway kernels run. UserError when they are asked for by name and cannot.
bool use_highway(std::string_view head, Backend backend, const at::Tensor& hidden_TH,
                 const at::Tensor& weight_VH);

// A CPU tensor [rows, width] in float32 or bfloat16 as the kernels see it.
kernels::RowMatrix row_matrix(const at::Tensor& tensor);

// LibTorch's threads, for the loops of kernels/: as many as at::get_num_threads() says when it is called.
kernels::ParallelFor torch_threads();

// The rows of one matrix that the ATen paths gather at a time: their temporaries stay near 8 MB each.
std::int64_t aten_block_rows(std::int64_t width);

// target[visit.token] += coefficient * matrix[visit.row] (kToTokens: the gradient of hidden states), or
// target[visit.row] += coefficient * matrix[visit.token] (kToRows: of the weight), in ATen operations on
// blocks of visits, summed in the type of `target`; on the CPU in the order given. No visit may have a
// negative row.
enum class VisitDirection { kToTokens, kToRows };
void add_visits_with_aten(VisitDirection direction, const at::Tensor& matrix,
                          std::span<const kernels::RowVisit> visits, const at::Tensor& target);

}  // namespace routeopd::model
