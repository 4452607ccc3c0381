// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/vocabulary_rows.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "routeopd/model/heads/dense_head.h"

namespace routeopd::probe {
namespace {

struct Rows {
  at::Tensor hidden_SH, head_VH;
  at::Tensor logits_CR{};

  void compute(std::int64_t begin, std::int64_t end, std::int64_t real_ids) {
    if (!logits_CR.defined() || logits_CR.size(0) != end - begin)
      logits_CR = at::empty({end - begin, real_ids}, at::kFloat);
    model::dense_logits(hidden_SH.slice(0, begin, end), head_VH, real_ids, logits_CR);
  }
  std::span<const float> row(std::int64_t i) const {
    const auto width = static_cast<std::size_t>(logits_CR.size(1));
    return {logits_CR.const_data_ptr<float>() + static_cast<std::size_t>(i) * width, width};
  }
};

void walk(std::span<Rows> models, std::int64_t real_ids,
          const std::function<void(std::int64_t state, std::int64_t row)>& visit) {
  const c10::NoGradGuard no_grad;
  const std::int64_t states = models.front().hidden_SH.size(0);
  for (std::int64_t begin = 0; begin < states; begin += kBlockStates) {
    const std::int64_t end = std::min(begin + kBlockStates, states);
    for (Rows& rows : models) rows.compute(begin, end, real_ids);
    at::parallel_for(0, end - begin, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) visit(begin + i, i);
    });
  }
}

}  // namespace

void walk_rows(const at::Tensor& first_SH, const at::Tensor& first_head_VH, const at::Tensor& second_SX,
               const at::Tensor& second_head_UX, std::int64_t real_ids, const RowVisitor& visit) {
  std::array<Rows, 2> models = {Rows{first_SH, first_head_VH.detach()},
                                Rows{second_SX, second_head_UX.detach()}};
  walk(models, real_ids, [&](std::int64_t state, std::int64_t row) {
    visit(static_cast<std::size_t>(state), models[0].row(row), models[1].row(row));
  });
}

void walk_rows(const at::Tensor& first_SH, const at::Tensor& first_head_VH, const at::Tensor& second_SX,
               const at::Tensor& second_head_UX, const at::Tensor& third_SH, const at::Tensor& third_head_VH,
               std::int64_t real_ids, const ThreeRowVisitor& visit) {
  std::array<Rows, 3> models = {Rows{first_SH, first_head_VH.detach()},
                                Rows{second_SX, second_head_UX.detach()},
                                Rows{third_SH, third_head_VH.detach()}};
  walk(models, real_ids, [&](std::int64_t state, std::int64_t row) {
    visit(static_cast<std::size_t>(state), models[0].row(row), models[1].row(row), models[2].row(row));
  });
}

RowSums row_sums(std::span<const float> logits_R) {
  const auto top = static_cast<double>(*std::max_element(logits_R.begin(), logits_R.end()));
  double sum = 0, weighted = 0;  // of e^(z - top), and of that times (z - top)
  for (const float z : logits_R) {
    const double shifted = static_cast<double>(z) - top;
    const double e = std::exp(shifted);
    sum += e;
    if (e > 0) weighted += e * shifted;
  }
  return {.logsumexp = top + std::log(sum), .entropy = std::log(sum) - weighted / sum};
}

}  // namespace routeopd::probe
