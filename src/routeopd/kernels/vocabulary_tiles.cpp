// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/vocabulary_tiles.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>

#include "routeopd/kernels/row_convert.h"

namespace routeopd::kernels {
namespace {

// A thread's logits of a tile, 96 x 1,024 floats, stay in its second-level cache.
constexpr std::int64_t kMaxTileWidth = 1024;
constexpr std::int64_t kTileRows = 96;
constexpr std::int64_t kStateBytes = 1 << 26;  // top-k states of a thread; reached only with a k of thousands
constexpr std::int64_t kFinishGrain = 16;      // rows

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

// What one thread has seen of each row.
struct TileWorker {
  std::vector<float> logits;  // of a tile
  std::unique_ptr<std::uint64_t[]> keys;
  std::vector<RowTopk> states;

  void start(std::int64_t rows, std::int32_t k) {
    const auto capacity = static_cast<std::size_t>(row_topk_capacity(k));
    keys = std::make_unique_for_overwrite<std::uint64_t[]>(static_cast<std::size_t>(rows) * capacity);
    states.reserve(static_cast<std::size_t>(rows));
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
      states.emplace_back(&keys[r * capacity], k);
  }
};

// The answers of row r from what all threads have seen.
void finish_row(std::vector<TileWorker>& workers, std::int64_t rows, std::int64_t r, const TileScores& scores,
                const std::vector<LogSum>& sums_ST) {
  RowTopk* total = nullptr;
  for (TileWorker& worker : workers) {
    if (worker.states.empty()) continue;
    RowTopk& state = worker.states[static_cast<std::size_t>(r)];
    if (total == nullptr) {
      total = &state;
    } else {
      total->merge(state);
    }
  }
  total->finish(scores.top_logits_TK + r * scores.k, scores.top_ids_TK + r * scores.k);
  LogSum sum;  // in the order of the tiles, whoever computed them
  for (std::int64_t at = r; at < std::ssize(sums_ST); at += rows)
    sum.add(sums_ST[static_cast<std::size_t>(at)]);
  scores.logsumexp_T[r] = static_cast<float>(sum.log());
  if (scores.entropy_T != nullptr) scores.entropy_T[r] = static_cast<float>(sum.entropy());
}

// logits_TR: null, or where the logits are kept.
void score_block(const Product& head, const float* hidden_TH, std::int64_t hidden_stride, std::int64_t rows,
                 const ParallelFor& parallel, const TileScores& scores, float* logits_TR,
                 std::vector<LogSum>& sums_ST) {
  const std::int64_t ids = head.outputs, widest = tile_width(ids);
  const std::int64_t tiles = (ids + widest - 1) / widest;
  const std::int64_t tile_panels = (widest + kPanelWidth - 1) / kPanelWidth;
  sums_ST.assign(static_cast<std::size_t>(tiles * rows), {});
  std::fill_n(scores.gathered_TG, rows * scores.gathers, std::numeric_limits<float>::quiet_NaN());

  std::vector<TileWorker> workers(static_cast<std::size_t>(std::min<std::int64_t>(parallel.threads, tiles)));
  std::atomic<std::int64_t> next{0};
  parallel(0, std::ssize(workers), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      TileWorker& worker = workers[static_cast<std::size_t>(w)];
      for (std::int64_t i = next++; i < tiles; i = next++) {
        if (worker.states.empty()) worker.start(rows, scores.k);
        const std::int64_t first = i * widest, width = std::min(widest, ids - first);
        const Product tile = panels_of(head, i * tile_panels, tile_panels);
        float* logits = nullptr;
        std::int64_t stride = ids;
        if (logits_TR != nullptr) {
          logits = logits_TR + first;
        } else {
          worker.logits.resize(static_cast<std::size_t>(rows * width));
          logits = worker.logits.data();
          stride = width;
        }
        multiply_panels(tile, hidden_TH, rows, hidden_stride, 0, tile.weight.panel_count, logits, stride);
        row_topk_scan(worker.states.data(), &sums_ST[static_cast<std::size_t>(i * rows)], logits, rows, width,
                      stride, static_cast<std::int32_t>(first), scores.entropy_T != nullptr);
        gather_from_tile(logits, stride, rows, width, first, scores.gather_ids_TG, scores.gathers,
                         scores.gathered_TG);
      }
    }
  });
  parallel(0, rows, kFinishGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) finish_row(workers, rows, r, scores, sums_ST);
  });
}

// The answers from row `first` on.
TileScores rows_from(const TileScores& scores, std::int64_t first) {
  TileScores part = scores;
  part.top_ids_TK += first * scores.k;
  part.top_logits_TK += first * scores.k;
  part.logsumexp_T += first;
  if (scores.entropy_T != nullptr) part.entropy_T += first;
  if (scores.gathers > 0) {
    part.gather_ids_TG += first * scores.gathers;
    part.gathered_TG += first * scores.gathers;
  }
  return part;
}

}  // namespace

std::int64_t tile_width(std::int64_t ids) {
  if (ids <= kMaxTileWidth) return ids;
  const std::int64_t tiles = (ids + 8 * kMaxTileWidth - 1) / (8 * kMaxTileWidth) * 8;
  const std::int64_t width = (ids + tiles - 1) / tiles;
  return (width + kPanelWidth - 1) / kPanelWidth * kPanelWidth;
}

void score_tiles(const Product& head, const RowMatrix& hidden, std::int64_t rows, const ParallelFor& parallel,
                 const TileScores& scores) {
  const std::int64_t state_bytes = row_topk_capacity(scores.k) * std::int64_t{8};
  const std::int64_t block = std::clamp<std::int64_t>(kStateBytes / state_bytes, 1, kTileRows);
  std::vector<float> widened;
  std::vector<LogSum> sums_ST;
  for (std::int64_t t = 0; t < rows; t += block) {
    const std::int64_t count = std::min(block, rows - t);
    const float* from = static_cast<const float*>(hidden.data) + t * hidden.stride;
    std::int64_t stride = hidden.stride;
    if (hidden.type != RowType::kFloat32) {
      widened.resize(static_cast<std::size_t>(count * hidden.width));
      for (std::int64_t r = 0; r < count; ++r) widen_row(hidden, t + r, widened.data() + r * hidden.width);
      from = widened.data();
      stride = hidden.width;
    }
    score_block(head, from, stride, count, parallel, rows_from(scores, t), nullptr, sums_ST);
  }
}

void score_keeping_logits(const Product& head, const float* hidden_TH, std::int64_t rows,
                          const ParallelFor& parallel, const TileScores& scores, float* logits_TR,
                          std::vector<LogSum>& sums_ST) {
  score_block(head, hidden_TH, head.weight.inputs, rows, parallel, scores, logits_TR, sums_ST);
}

}  // namespace routeopd::kernels
