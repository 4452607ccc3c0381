// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/dense_head.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/head_common.h"

namespace routeopd::model {
namespace {

// Rows of a bfloat16 weight that are widened to float32 at a time.
constexpr std::int64_t kWidenRows = 8192;

bool is_wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

at::Tensor widened(const at::Tensor& tensor) {
  return is_wide(tensor) ? tensor : tensor.to(at::kFloat);
}

// Calls work(begin, end, rows) on slices of weight[0:R], each in a type that a GEMM accumulates and answers
// in.
template <class Work>
void for_each_slice(const at::Tensor& weight_VH, std::int64_t real_ids, const Work& work) {
  const std::int64_t step = is_wide(weight_VH) ? real_ids : kWidenRows;
  for (std::int64_t begin = 0; begin < real_ids; begin += step) {
    const std::int64_t end = std::min(begin + step, real_ids);
    work(begin, end, widened(weight_VH.slice(0, begin, end)));
  }
}

double rows_loss(const DenseLoss& loss, std::int64_t begin, at::Tensor& logits_CR) {
  const std::int64_t rows = logits_CR.size(0);
  const auto columns = static_cast<std::size_t>(logits_CR.size(1));
  float* data = logits_CR.mutable_data_ptr<float>();
  std::vector<double> losses(static_cast<std::size_t>(rows));
  at::parallel_for(0, rows, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      float* values = data + row * static_cast<std::int64_t>(columns);
      losses[static_cast<std::size_t>(row)] = loss.row(begin + row, {values, columns}, {values, columns});
    }
  });
  double total = 0;  // in row order: the same for any number of threads
  for (const double value : losses) total += value;
  return total;
}

void check(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, std::int64_t real_ids,
           const at::Tensor& grad_hidden_TH, const HeadGradient& grad_weight) {
  if (hidden_TH.dim() != 2 || weight_VH.dim() != 2 || hidden_TH.size(1) != weight_VH.size(1)) {
    throw UserError("dense head: expected hidden [T, H] and weight [V, H] of one H, got {} x {} and {} x {}",
                    hidden_TH.size(0), hidden_TH.size(-1), weight_VH.size(0), weight_VH.size(-1));
  }
  if (real_ids < 1 || real_ids > weight_VH.size(0)) {
    throw UserError("dense head: expected 1 to {} real ids, got {}", weight_VH.size(0), real_ids);
  }
  if (grad_hidden_TH.sizes() != hidden_TH.sizes() || grad_weight.tensor().sizes() != weight_VH.sizes()) {
    throw UserError("dense head: the gradients' shapes differ from those of hidden and weight");
  }
}

}  // namespace

void dense_logits(const at::Tensor& hidden_CH, const at::Tensor& weight_VH, std::int64_t real_ids,
                  at::Tensor& logits_CR) {
  const at::Tensor hidden = widened(hidden_CH);
  for_each_slice(weight_VH, real_ids, [&](std::int64_t begin, std::int64_t end, const at::Tensor& rows) {
    at::Tensor out = logits_CR.slice(1, begin, end);
    at::mm_out(out, hidden, rows.t());
  });
}

double dense_head_step(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, std::int64_t real_ids,
                       const DenseLoss& loss, at::Tensor& grad_hidden_TH, HeadGradient& grad_weight,
                       Backend backend, std::int64_t chunk) {
  check(hidden_TH, weight_VH, real_ids, grad_hidden_TH, grad_weight);
  const c10::NoGradGuard no_grad;
  const auto wide = widened(hidden_TH.slice(0, 0, 0)).options();
  const bool use_rows = use_highway("dense head", backend, hidden_TH, weight_VH);
  const std::int64_t tokens = hidden_TH.size(0);
  at::Tensor buffer_CR = at::empty({std::min(chunk, tokens), real_ids}, wide);
  at::Tensor grad_real_RH = grad_weight.tensor().slice(0, 0, real_ids);
  double total = 0;
  for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, tokens);
    const at::Tensor hidden_CH = widened(hidden_TH.slice(0, begin, end));
    at::Tensor values_CR = buffer_CR.slice(0, 0, end - begin);  // logits, then the gradient on them
    dense_logits(hidden_CH, weight_VH, real_ids, values_CR);

    if (loss.begin_chunk) loss.begin_chunk(begin, end);
    total += use_rows ? rows_loss(loss, begin, values_CR) : loss.chunk(begin, end, values_CR);

    at::Tensor grad_CH = grad_hidden_TH.slice(0, begin, end);
    const double keep = grad_weight.begin_dense(real_ids);
    for_each_slice(weight_VH, real_ids, [&](std::int64_t first, std::int64_t last, const at::Tensor& rows) {
      const at::Tensor part = values_CR.slice(1, first, last);
      at::addmm_out(grad_CH, grad_CH, part, rows, first == 0 ? 0 : 1, 1);
      at::Tensor grad_rows = grad_real_RH.slice(0, first, last);
      at::addmm_out(grad_rows, grad_rows, part.t(), hidden_CH, keep, 1);
    });
  }
  return total;
}

}  // namespace routeopd::model
