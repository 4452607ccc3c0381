// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/streaming_head.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/kernels/vocabulary_tiles.h"
#include "routeopd/model/heads/head_common.h"

namespace routeopd::model {

namespace {

at::ScalarType logit_type(const at::Tensor& hidden_TH, const at::Tensor& weight_VH) {
  const bool is_double = hidden_TH.scalar_type() == at::kDouble || weight_VH.scalar_type() == at::kDouble;
  return is_double ? at::kDouble : at::kFloat;
}

std::string sizes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

void check_gather_ids(const at::Tensor& ids_TG, const at::Tensor& hidden_TH, std::int64_t real_ids) {
  const bool is_integer = ids_TG.scalar_type() == at::kInt || ids_TG.scalar_type() == at::kLong;
  if (!is_integer || ids_TG.dim() != 2 || ids_TG.size(0) != hidden_TH.size(0) ||
      ids_TG.device() != hidden_TH.device()) {
    throw UserError("streaming head: the ids to gather must be int32 or int64 [{}, G] beside hidden, got {}",
                    hidden_TH.size(0), sizes_of(ids_TG));
  }
  if (ids_TG.numel() == 0) return;
  const auto [low, high] = at::aminmax(ids_TG);
  if (low.item<std::int64_t>() < -1 || high.item<std::int64_t>() >= real_ids) {
    throw UserError("streaming head: the ids to gather must lie in [-1, {}), got {} to {}", real_ids,
                    low.item<std::int64_t>(), high.item<std::int64_t>());
  }
}

// Widened: a product in bfloat16 would round the logits to it, an error of 0.06 in log-odds.
at::Tensor float_rows(const at::Tensor& weight_VH, std::int64_t rows) {
  return weight_VH.narrow(0, 0, rows).to(at::kFloat).contiguous();
}

// Points into rows_RH.
std::vector<PanelSource> source_of(const at::Tensor& rows_RH) {
  std::vector<PanelSource> sources(1);
  sources[0].add_rows(rows_RH, {});
  sources[0].fill_panel();
  return sources;
}

kernels::TileScores where_to(const HeadScores& scores) {
  return {.k = static_cast<std::int32_t>(scores.top_ids_TK.size(1)),
          .top_ids_TK = scores.top_ids_TK.mutable_data_ptr<std::int32_t>(),
          .top_logits_TK = scores.top_logits_TK.mutable_data_ptr<float>(),
          .logsumexp_T = scores.logsumexp_T.mutable_data_ptr<float>(),
          .entropy_T = scores.entropy_T.defined() ? scores.entropy_T.mutable_data_ptr<float>() : nullptr,
          .gathers = scores.gathered_TG.size(1),
          .gather_ids_TG = nullptr,
          .gathered_TG = scores.gathered_TG.mutable_data_ptr<float>()};
}

HeadScores empty_scores(std::int64_t tokens, std::int64_t k, std::int64_t gathers, bool entropy) {
  const auto options = at::TensorOptions().dtype(at::kFloat);
  return {at::empty({tokens, k}, options.dtype(at::kInt)), at::empty({tokens, k}, options),
          at::empty({tokens}, options), entropy ? at::empty({tokens}, options) : at::Tensor(),
          at::empty({tokens, gathers}, options)};
}

}  // namespace

StreamingHead::StreamingHead(const at::Tensor& weight_VH, std::int64_t real_ids, Backend backend,
                             WeightStorage storage)
    : real_ids_(real_ids), backend_(backend) {
  if (!weight_VH.defined() || weight_VH.dim() != 2 || weight_VH.numel() == 0 ||
      !weight_VH.is_floating_point()) {
    throw UserError("streaming head: the weight must be a floating-point matrix [V, H], got {}",
                    sizes_of(weight_VH));
  }
  if (real_ids < 1 || real_ids > weight_VH.size(0) || real_ids > std::numeric_limits<std::int32_t>::max()) {
    throw UserError("streaming head: the number of real ids must lie in [1, {}], got {}", weight_VH.size(0),
                    real_ids);
  }
  weight_VH_ = weight_VH.detach();
  const bool fits = weight_VH_.device().is_cpu() &&
                    (weight_VH_.scalar_type() == at::kFloat || weight_VH_.scalar_type() == at::kBFloat16);
  if (backend_ == Backend::kAuto) backend_ = fits ? Backend::kHighway : Backend::kAten;
  if (backend_ == Backend::kAten) return;
  if (!fits) {
    throw UserError("streaming head: the fast path needs a float32 or bfloat16 weight on the CPU, got {}",
                    sizes_of(weight_VH));
  }
  const at::Tensor rows_RH = float_rows(weight_VH_, real_ids);
  packed_ = std::make_unique<PackedMatrices>(source_of(rows_RH), storage);
}

void StreamingHead::update(const at::Tensor& weight_VH) {
  ROUTEOPD_INVARIANT(weight_VH.sizes() == weight_VH_.sizes());
  weight_VH_ = weight_VH.detach();
  if (!packed_) return;
  const at::Tensor rows_RH = float_rows(weight_VH_, real_ids_);
  packed_->update(source_of(rows_RH));
}

HeadScores StreamingHead::score(const at::Tensor& hidden_TH, std::int64_t k, const at::Tensor& gather_ids_TG,
                                bool entropy) const {
  if (!hidden_TH.defined() || hidden_TH.dim() != 2 || hidden_TH.size(1) != hidden_size() ||
      !hidden_TH.is_floating_point() || hidden_TH.device() != weight_VH_.device()) {
    throw UserError("streaming head: the hidden states must be a floating-point matrix [T, {}] on {}, got {}",
                    hidden_size(), weight_VH_.device().str(), sizes_of(hidden_TH));
  }
  if (k <= 0) throw UserError("streaming head: k must be at least 1, got {}", k);
  const std::int64_t tokens = hidden_TH.size(0);
  at::Tensor ids_TG = gather_ids_TG;
  if (!ids_TG.defined()) ids_TG = at::empty({tokens, 0}, hidden_TH.options().dtype(at::kInt));
  check_gather_ids(ids_TG, hidden_TH, real_ids_);
  const std::int64_t top = std::min(k, real_ids_);
  if (backend_ == Backend::kAten) return score_with_aten(hidden_TH.detach(), top, ids_TG, entropy);
  if (hidden_TH.scalar_type() == at::kDouble) {
    throw UserError("streaming head: float64 hidden states need the ATen path, not the float32 tiles");
  }

  const bool narrow = hidden_TH.scalar_type() == at::kFloat || hidden_TH.scalar_type() == at::kBFloat16;
  const at::Tensor hidden = (narrow ? hidden_TH : hidden_TH.to(at::kFloat)).detach().contiguous();
  const at::Tensor gather_ids = ids_TG.to(at::kInt).contiguous();
  HeadScores scores = empty_scores(tokens, top, ids_TG.size(1), entropy);
  kernels::TileScores to = where_to(scores);
  to.gather_ids_TG = gather_ids.const_data_ptr<std::int32_t>();
  kernels::score_tiles(product(), row_matrix(hidden), tokens, torch_threads(), to);
  return scores;
}

void StreamingHead::hold(const at::Tensor& hidden_TH, std::int64_t k, HeldLogits& held, bool entropy) const {
  ROUTEOPD_INVARIANT(backend_ == Backend::kHighway && k > 0 && hidden_TH.is_contiguous());
  const std::int64_t tokens = hidden_TH.size(0);
  held.tile_width = kernels::tile_width(real_ids_);
  if (!held.logits_TR.defined() || held.logits_TR.size(0) < tokens || held.logits_TR.size(1) != real_ids_)
    held.logits_TR = at::empty({tokens, real_ids_}, at::kFloat);
  held.scores = empty_scores(tokens, std::min(k, real_ids_), 0, entropy);
  kernels::score_keeping_logits(product(), hidden_TH.const_data_ptr<float>(), tokens, torch_threads(),
                                where_to(held.scores), held.logits_TR.data_ptr<float>(), held.sums_ST);
}

// Tiles of the vocabulary in plain ATen operations. Sorts are stable and lower ids stand first: ties go to
// them.
HeadScores StreamingHead::score_with_aten(const at::Tensor& hidden_TH, std::int64_t k,
                                          const at::Tensor& gather_ids_TG, bool entropy) const {
  const at::NoGradGuard no_autograd;
  const at::ScalarType type = logit_type(hidden_TH, weight_VH_);
  const std::int64_t tokens = hidden_TH.size(0);
  const auto options = hidden_TH.options().dtype(type);
  const at::Tensor hidden = hidden_TH.to(type);
  const at::Tensor ids_TG = gather_ids_TG.to(at::kLong);
  at::Tensor values_TK = at::empty({tokens, 0}, options);
  at::Tensor ids_TK = at::empty({tokens, 0}, options.dtype(at::kLong));
  at::Tensor gathered_TG = at::full(ids_TG.sizes(), std::numeric_limits<double>::quiet_NaN(), options);
  std::vector<at::Tensor> tile_sums, tile_means;  // log-sum-exp, and mean logit under a tile's own softmax
  const std::int64_t widest = kernels::tile_width(real_ids_);
  for (std::int64_t first = 0; first < real_ids_; first += widest) {
    const std::int64_t width = std::min(widest, real_ids_ - first);
    const at::Tensor logits_TW = at::linear(hidden, weight_VH_.narrow(0, first, width).to(type));
    tile_sums.push_back(at::logsumexp(logits_TW, -1));
    if (entropy) {
      const at::Tensor p_TW = at::softmax(logits_TW, -1);
      tile_means.push_back(at::where(p_TW.eq(0), at::zeros_like(p_TW), p_TW * logits_TW).sum(-1));
    }

    const at::Tensor at_TG = ids_TG - first;
    const at::Tensor inside_TG = at_TG.ge(0).logical_and(at_TG.lt(width));
    gathered_TG = at::where(inside_TG, logits_TW.gather(-1, at_TG.clamp(0, width - 1)), gathered_TG);

    const auto [sorted_TW, order_TW] = at::sort(logits_TW, /*stable=*/true, -1, /*descending=*/true);
    const std::int64_t kept = std::min(k, width);
    const at::Tensor both = at::cat({values_TK, sorted_TW.narrow(-1, 0, kept)}, -1);
    const at::Tensor both_ids = at::cat({ids_TK, order_TW.narrow(-1, 0, kept) + first}, -1);
    const auto [merged, order] = at::sort(both, /*stable=*/true, -1, /*descending=*/true);
    const std::int64_t best = std::min(k, merged.size(-1));
    values_TK = merged.narrow(-1, 0, best);
    ids_TK = both_ids.gather(-1, order.narrow(-1, 0, best));
  }
  const at::Tensor sums_TS = at::stack(tile_sums, -1), logsumexp_T = at::logsumexp(sums_TS, -1);
  at::Tensor entropy_T;
  if (entropy) entropy_T = logsumexp_T - (at::softmax(sums_TS, -1) * at::stack(tile_means, -1)).sum(-1);
  return {ids_TK.to(at::kInt).contiguous(), values_TK.contiguous(), logsumexp_T, entropy_T, gathered_TG};
}

}  // namespace routeopd::model
