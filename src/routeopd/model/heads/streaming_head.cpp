//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/streaming_head.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/kernels/row_topk.h"

namespace routeopd::model {

namespace {

// A thread's logits of a tile, 96 x 1,024 floats, stay in its second-level cache.
constexpr std::int64_t kMaxTileRows = 1024;
constexpr std::int64_t kTokenBlock = 96;
constexpr std::int64_t kStateBytes = 1 << 26;  // of the top-k states a thread: more only for a k of thousands

// Tiles of nearly equal size, their number a multiple of 8 so that 2, 4 or 8 threads end together. A function
// of the vocabulary alone: the result must not depend on the threads.
std::int64_t choose_tile_rows(std::int64_t real_ids) {
  if (real_ids <= kMaxTileRows) return real_ids;
  const std::int64_t tiles = (real_ids + 8 * kMaxTileRows - 1) / (8 * kMaxTileRows) * 8;
  const std::int64_t rows = (real_ids + tiles - 1) / tiles;
  return (rows + kernels::kPanelWidth - 1) / kernels::kPanelWidth * kernels::kPanelWidth;
}

at::ScalarType logit_type(const at::Tensor& hidden_TH, const at::Tensor& weight_VH) {
  const bool is_double = hidden_TH.scalar_type() == at::kDouble || weight_VH.scalar_type() == at::kDouble;
  return is_double ? at::kDouble : at::kFloat;
}

std::string shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

void check_gather_ids(const at::Tensor& ids_TG, const at::Tensor& hidden_TH, std::int64_t real_ids) {
  const bool is_integer = ids_TG.scalar_type() == at::kInt || ids_TG.scalar_type() == at::kLong;
  if (!is_integer || ids_TG.dim() != 2 || ids_TG.size(0) != hidden_TH.size(0) ||
      ids_TG.device() != hidden_TH.device()) {
    throw UserError("streaming head: the ids to gather must be int32 or int64 [{}, G] beside hidden, got {}",
                    hidden_TH.size(0), shape_of(ids_TG));
  }
  if (ids_TG.numel() == 0) return;
  const auto [low, high] = at::aminmax(ids_TG);
  if (low.item<std::int64_t>() < -1 || high.item<std::int64_t>() >= real_ids) {
    throw UserError("streaming head: the ids to gather must lie in [-1, {}), got {} to {}", real_ids,
                    low.item<std::int64_t>(), high.item<std::int64_t>());
  }
}

// The columns of ids that fall into [first, first + width) of the vocabulary, for every row of the tile's
// logits.
void gather_from_tile(const float* logits, std::int64_t stride, std::int64_t rows, std::int64_t width,
                      std::int64_t first, const std::int32_t* ids, std::int64_t columns, float* gathered) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t g = 0; g < columns; ++g) {
      const std::int64_t at = ids[r * columns + g] - first;
      if (at >= 0 && at < width) gathered[r * columns + g] = logits[r * stride + at];
    }
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

// What one worker has seen of each token of a block.
struct Worker {
  std::vector<float> logits;  // of a tile
  std::unique_ptr<std::uint64_t[]> keys;
  std::vector<kernels::RowTopk> states;

  void start(std::int64_t rows, std::int32_t k) {
    const auto capacity = static_cast<std::size_t>(kernels::row_topk_capacity(k));
    keys = std::make_unique_for_overwrite<std::uint64_t[]>(static_cast<std::size_t>(rows) * capacity);
    states.reserve(static_cast<std::size_t>(rows));
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
      states.emplace_back(&keys[r * capacity], k);
  }
};

}  // namespace

StreamingHead::StreamingHead(const at::Tensor& weight_VH, std::int64_t real_ids, Backend backend,
                             WeightStorage storage)
    : real_ids_(real_ids), backend_(backend), tile_rows_(0) {
  if (!weight_VH.defined() || weight_VH.dim() != 2 || weight_VH.numel() == 0 ||
      !weight_VH.is_floating_point()) {
    throw UserError("streaming head: the weight must be a floating-point matrix [V, H], got {}",
                    shape_of(weight_VH));
  }
  if (real_ids < 1 || real_ids > weight_VH.size(0) || real_ids > std::numeric_limits<std::int32_t>::max()) {
    throw UserError("streaming head: the number of real ids must lie in [1, {}], got {}", weight_VH.size(0),
                    real_ids);
  }
  weight_VH_ = weight_VH.detach();
  const bool fits = weight_VH_.device().is_cpu() &&
                    (weight_VH_.scalar_type() == at::kFloat || weight_VH_.scalar_type() == at::kBFloat16);
  if (backend_ == Backend::kAuto) backend_ = fits ? Backend::kHighway : Backend::kAten;
  tile_rows_ = choose_tile_rows(real_ids);
  if (backend_ == Backend::kAten) return;
  if (!fits) {
    throw UserError("streaming head: the fast path needs a float32 or bfloat16 weight on the CPU, got {}",
                    shape_of(weight_VH));
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

HeadScores StreamingHead::score(const at::Tensor& hidden_TH, std::int64_t k,
                                const at::Tensor& gather_ids_TG) const {
  if (!hidden_TH.defined() || hidden_TH.dim() != 2 || hidden_TH.size(1) != hidden_size() ||
      !hidden_TH.is_floating_point() || hidden_TH.device() != weight_VH_.device()) {
    throw UserError("streaming head: the hidden states must be a floating-point matrix [T, {}] on {}, got {}",
                    hidden_size(), weight_VH_.device().str(), shape_of(hidden_TH));
  }
  if (k <= 0) throw UserError("streaming head: k must be at least 1, got {}", k);
  const std::int64_t tokens = hidden_TH.size(0);
  at::Tensor ids_TG = gather_ids_TG;
  if (!ids_TG.defined()) ids_TG = at::empty({tokens, 0}, hidden_TH.options().dtype(at::kInt));
  check_gather_ids(ids_TG, hidden_TH, real_ids_);
  const std::int64_t top = std::min(k, real_ids_);
  if (backend_ == Backend::kAten) return score_with_aten(hidden_TH.detach(), top, ids_TG);
  if (hidden_TH.scalar_type() == at::kDouble) {
    throw UserError("streaming head: float64 hidden states need the ATen path, not the float32 tiles");
  }

  const auto options = at::TensorOptions().dtype(at::kFloat);
  HeadScores scores{at::empty({tokens, top}, options.dtype(at::kInt)), at::empty({tokens, top}, options),
                    at::empty({tokens}, options),
                    at::full({tokens, ids_TG.size(1)}, std::numeric_limits<float>::quiet_NaN(), options)};
  const std::int64_t state_bytes =
      kernels::row_topk_capacity(static_cast<std::int32_t>(top)) * std::int64_t{8};
  const std::int64_t block = std::clamp<std::int64_t>(kStateBytes / state_bytes, 1, kTokenBlock);
  std::vector<kernels::LogSum> sums_ST;
  for (std::int64_t t = 0; t < tokens; t += block) {
    const std::int64_t rows = std::min(block, tokens - t);
    HeadScores part{scores.top_ids_TK.narrow(0, t, rows), scores.top_logits_TK.narrow(0, t, rows),
                    scores.logsumexp_T.narrow(0, t, rows), scores.gathered_TG.narrow(0, t, rows)};
    score_block(hidden_TH.detach().narrow(0, t, rows).to(at::kFloat).contiguous(),
                ids_TG.narrow(0, t, rows).to(at::kInt).contiguous(), part, nullptr, sums_ST);
  }
  return scores;
}

void StreamingHead::hold(const at::Tensor& hidden_TH, std::int64_t k, HeldLogits& held) const {
  ROUTEOPD_INVARIANT(backend_ == Backend::kHighway && k > 0 && hidden_TH.is_contiguous());
  const std::int64_t tokens = hidden_TH.size(0), top = std::min(k, real_ids_);
  const auto options = at::TensorOptions().dtype(at::kFloat);
  held.tile_width = tile_rows_;
  if (!held.logits_TR.defined() || held.logits_TR.size(0) < tokens || held.logits_TR.size(1) != real_ids_)
    held.logits_TR = at::empty({tokens, real_ids_}, options);
  held.scores = {at::empty({tokens, top}, options.dtype(at::kInt)), at::empty({tokens, top}, options),
                 at::empty({tokens}, options), at::empty({tokens, 0}, options)};
  score_block(hidden_TH, at::empty({tokens, 0}, options.dtype(at::kInt)), held.scores,
              held.logits_TR.data_ptr<float>(), held.sums_ST);
}

void StreamingHead::score_block(const at::Tensor& hidden_TH, const at::Tensor& gather_ids_TG,
                                HeadScores& scores, float* held_TR,
                                std::vector<kernels::LogSum>& sums_ST) const {
  const std::int64_t rows = hidden_TH.size(0);
  const std::int64_t columns = gather_ids_TG.size(1);
  const std::int64_t k = scores.top_ids_TK.size(1);
  const std::int64_t tile_count = (real_ids_ + tile_rows_ - 1) / tile_rows_;
  const std::int64_t tile_panels = (tile_rows_ + kernels::kPanelWidth - 1) / kernels::kPanelWidth;
  const auto* ids = gather_ids_TG.const_data_ptr<std::int32_t>();
  auto* gathered = scores.gathered_TG.mutable_data_ptr<float>();
  sums_ST.assign(static_cast<std::size_t>(tile_count * rows), {});

  // Threads take the next tile when they are done with one.
  const std::int64_t workers = std::min<std::int64_t>(at::get_num_threads(), tile_count);
  std::vector<Worker> seen(static_cast<std::size_t>(workers));
  std::atomic<std::int64_t> next{0};
  at::parallel_for(0, workers, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      Worker& worker = seen[static_cast<std::size_t>(w)];
      for (std::int64_t i = next++; i < tile_count; i = next++) {
        if (worker.states.empty()) worker.start(rows, static_cast<std::int32_t>(k));
        const std::int64_t first = i * tile_rows_, width = std::min(tile_rows_, real_ids_ - first);
        const kernels::Product tile = kernels::panels_of(product(), i * tile_panels, tile_panels);
        float* z = nullptr;
        std::int64_t stride = real_ids_;
        if (held_TR != nullptr) {
          z = held_TR + first;
        } else {
          worker.logits.resize(static_cast<std::size_t>(rows * width));
          z = worker.logits.data();
          stride = width;
        }
        kernels::multiply_panels(tile, hidden_TH.const_data_ptr<float>(), rows, hidden_size(), 0,
                                 tile.weight.panel_count, z, stride);
        kernels::row_topk_scan(worker.states.data(), &sums_ST[static_cast<std::size_t>(i * rows)], z, rows,
                               width, stride, static_cast<std::int32_t>(first));
        gather_from_tile(z, stride, rows, width, first, ids, columns, gathered);
      }
    }
  });

  auto* top_logits = scores.top_logits_TK.mutable_data_ptr<float>();
  auto* top_ids = scores.top_ids_TK.mutable_data_ptr<std::int32_t>();
  auto* logsumexp = scores.logsumexp_T.mutable_data_ptr<float>();
  at::parallel_for(0, rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      kernels::RowTopk* total = nullptr;
      for (Worker& worker : seen) {
        if (worker.states.empty()) continue;
        kernels::RowTopk& state = worker.states[static_cast<std::size_t>(r)];
        if (total == nullptr) {
          total = &state;
        } else {
          total->merge(state);
        }
      }
      total->finish(top_logits + r * k, top_ids + r * k);
      kernels::LogSum sum;  // in the order of the tiles, whoever computed them
      for (std::int64_t i = 0; i < tile_count; ++i) sum.add(sums_ST[static_cast<std::size_t>(i * rows + r)]);
      logsumexp[r] = static_cast<float>(sum.log());
    }
  });
}

// Tiles of the vocabulary in plain ATen operations. Sorts are stable and lower ids stand first: ties go to
// them.
HeadScores StreamingHead::score_with_aten(const at::Tensor& hidden_TH, std::int64_t k,
                                          const at::Tensor& gather_ids_TG) const {
  const at::NoGradGuard no_autograd;
  const at::ScalarType type = logit_type(hidden_TH, weight_VH_);
  const std::int64_t tokens = hidden_TH.size(0);
  const auto options = hidden_TH.options().dtype(type);
  const at::Tensor hidden = hidden_TH.to(type);
  const at::Tensor ids_TG = gather_ids_TG.to(at::kLong);
  at::Tensor values_TK = at::empty({tokens, 0}, options);
  at::Tensor ids_TK = at::empty({tokens, 0}, options.dtype(at::kLong));
  at::Tensor gathered_TG = at::full(ids_TG.sizes(), std::numeric_limits<double>::quiet_NaN(), options);
  std::vector<at::Tensor> tile_sums;
  for (std::int64_t first = 0; first < real_ids_; first += tile_rows_) {
    const std::int64_t width = std::min(tile_rows_, real_ids_ - first);
    const at::Tensor logits_TW = at::linear(hidden, weight_VH_.narrow(0, first, width).to(type));
    tile_sums.push_back(at::logsumexp(logits_TW, -1));

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
  return {ids_TK.to(at::kInt).contiguous(), values_TK.contiguous(),
          at::logsumexp(at::stack(tile_sums, -1), -1), gathered_TG};
}

}  // namespace routeopd::model
