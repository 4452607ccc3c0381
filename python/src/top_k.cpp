// The operator that reads a whole head: top-k, log-sum-exp and logits at given ids, tile by tile.
//
// Shapes: T tokens, K of the top-k, G ids gathered per token, R real ids.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "routeopd/kernels/vocabulary_tiles.h"
#include "tensors.h"

namespace routeopd::python {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 31;  // tokens and ids are numbered in int32

std::tuple<Tensor, Tensor, Tensor, Tensor> top_k(Tensor hidden, Tensor weight, std::optional<Tensor> bias,
                                                 std::optional<Tensor> gather, std::int64_t k,
                                                 std::int64_t real_ids, double logit_scale, double softcap) {
  const kernels::RowMatrix hidden_TH = row_matrix(hidden, "hidden");
  const kernels::RowMatrix weight_VH = row_matrix(weight, "weight");
  const std::int64_t tokens = hidden.size(0), gathers = gather ? gather->size(gather->dim() - 1) : 0;
  if (hidden_TH.width != weight_VH.width)
    throw UserError("weight: expected {} columns as hidden has, got {}", hidden_TH.width, weight_VH.width);
  if (hidden_TH.width < 1) throw UserError("hidden: expected at least one column");
  if (real_ids < 1 || real_ids > weight.size(0) || real_ids >= kMostRows || tokens >= kMostRows)
    throw UserError("real_ids: expected 1 to {}, the rows of the weight, got {}", weight.size(0), real_ids);
  if (k < 1 || k > real_ids) throw UserError("k: expected 1 to {}, got {}", real_ids, k);
  Tensor ids_TK = empty_ints({tokens, k}), logits_TK = empty_floats({tokens, k});
  Tensor logsumexp_T = empty_floats({tokens}), gathered_TG = empty_floats({tokens, gathers});
  kernels::TileScores scores{.k = static_cast<std::int32_t>(k),
                             .top_ids_TK = data_of<std::int32_t>(ids_TK),
                             .top_logits_TK = data_of<float>(logits_TK),
                             .logsumexp_T = data_of<float>(logsumexp_T),
                             .gathers = gathers,
                             .gathered_TG = data_of<float>(gathered_TG)};
  if (gather) {
    scores.gather_ids_TG = int32_data(*gather, "gather", tokens, gathers);
    const auto* const end = scores.gather_ids_TG + tokens * gathers;
    const auto* const past =
        std::find_if(scores.gather_ids_TG, end, [&](std::int32_t id) { return id >= real_ids; });
    if (past != end) throw UserError("gather: expected ids below {}, got {}", real_ids, *past);
  }
  const kernels::LogitTransform transform{.scale = static_cast<float>(logit_scale),
                                          .softcap = static_cast<float>(softcap),
                                          .bias = bias ? float_data(*bias, "bias", weight.size(0)) : nullptr};
  kernels::score_rows(weight_VH, real_ids, hidden_TH, tokens, torch_threads(), scores, transform);
  return {ids_TK, logits_TK, logsumexp_T, gathered_TG};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(routeopd, library) {
  library.def(
      "top_k(Tensor hidden, Tensor weight, Tensor? bias, Tensor? gather, int k, int real_ids, float "
      "logit_scale, "
      "float softcap) -> (Tensor, Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(routeopd, CPU, library) {
  library.impl("top_k", TORCH_BOX(&Marked<&top_k>::call));
}

}  // namespace routeopd::python
