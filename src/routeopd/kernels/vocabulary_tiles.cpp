// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/vocabulary_tiles.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>

#include "routeopd/kernels/row_convert.h"

namespace routeopd::kernels {
namespace {

// A thread's logits of a tile, 96 x 1,024 floats, stay in its second-level cache.
constexpr std::int64_t kMaxTileWidth = 1024;
constexpr std::int64_t kTileRows = 96;
constexpr std::int64_t kStateBytes = 1 << 26;  // top-k states of a thread; reached only with a k of thousands
constexpr std::int64_t kFinishGrain = 16;      // rows

// score_rows: what a pass over the head remembers of its rows, which bounds them (4,599 for 151,936 ids and k
// = 32: enough that laying out the head again for each pass is 1% of its time).
constexpr std::int64_t kPassSumBytes = 1 << 24;    // sums of exponentials, of all tiles
constexpr std::int64_t kPassStateBytes = 1 << 22;  // top-k states of a thread
constexpr std::int64_t kFewPanels = 12;            // laid out at a time where one block is all the rows

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

constexpr std::align_val_t kPanelAlignment{64};
struct FreePanels {
  void operator()(float* panels) const { ::operator delete[](panels, kPanelAlignment); }
};

// What one thread has seen of each row.
struct TileWorker {
  std::vector<float> logits;                    // of a tile
  std::vector<float> hidden;                    // of a block of rows, widened
  std::unique_ptr<float[], FreePanels> panels;  // of a tile, where the head is not packed
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

// The head cut into tiles, and the rows of one pass over it.
struct TilePass {
  std::int64_t ids, rows;
  const TileScores& scores;
  std::vector<LogSum>& sums_ST;
  std::int64_t widest = tile_width(ids);
  std::int64_t tiles = (ids + widest - 1) / widest;

  std::int64_t first(std::int64_t tile) const { return tile * widest; }
  std::int64_t width(std::int64_t tile) const { return std::min(widest, ids - first(tile)); }

  // Shows the tile's logits of rows [row, row + count), `stride` apart, to top-k, sums and gathers.
  void take(TileWorker& worker, std::int64_t tile, std::int64_t row, std::int64_t count, const float* logits,
            std::int64_t stride) const {
    row_topk_scan(&worker.states[static_cast<std::size_t>(row)],
                  &sums_ST[static_cast<std::size_t>(tile * rows + row)], logits, count, width(tile), stride,
                  static_cast<std::int32_t>(first(tile)), scores.entropy_T != nullptr);
    gather_from_tile(logits, stride, count, width(tile), first(tile),
                     scores.gather_ids_TG + row * scores.gathers, scores.gathers,
                     scores.gathered_TG + row * scores.gathers);
  }

  // Calls work(worker, tile) for every tile; a thread takes the next one when it is done.
  template <class Work>
  void run(const ParallelFor& parallel, const Work& work) const {
    sums_ST.assign(static_cast<std::size_t>(tiles * rows), {});
    std::fill_n(scores.gathered_TG, rows * scores.gathers, std::numeric_limits<float>::quiet_NaN());
    std::vector<TileWorker> workers(
        static_cast<std::size_t>(std::min<std::int64_t>(parallel.threads, tiles)));
    std::atomic<std::int64_t> next{0};
    parallel(0, std::ssize(workers), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t w = begin; w < end; ++w) {
        TileWorker& worker = workers[static_cast<std::size_t>(w)];
        for (std::int64_t i = next++; i < tiles; i = next++) {
          if (worker.states.empty()) worker.start(rows, scores.k);
          work(worker, i);
        }
      }
    });
    parallel(0, rows, kFinishGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) finish_row(workers, rows, r, scores, sums_ST);
    });
  }
};

// logits_TR: null, or where the logits are kept.
void score_block(const Product& head, const float* hidden_TH, std::int64_t hidden_stride, std::int64_t rows,
                 const ParallelFor& parallel, const TileScores& scores, float* logits_TR,
                 std::vector<LogSum>& sums_ST) {
  const TilePass pass{.ids = head.outputs, .rows = rows, .scores = scores, .sums_ST = sums_ST};
  const std::int64_t tile_panels = (pass.widest + kPanelWidth - 1) / kPanelWidth;
  pass.run(parallel, [&](TileWorker& worker, std::int64_t i) {
    const Product tile = panels_of(head, i * tile_panels, tile_panels);
    float* logits = nullptr;
    std::int64_t stride = pass.ids;
    if (logits_TR != nullptr) {
      logits = logits_TR + pass.first(i);
    } else {
      stride = pass.width(i);
      worker.logits.resize(static_cast<std::size_t>(rows * stride));
      logits = worker.logits.data();
    }
    multiply_panels(tile, hidden_TH, rows, hidden_stride, 0, tile.weight.panel_count, logits, stride);
    pass.take(worker, i, 0, rows, logits, stride);
  });
}

// Rows of hidden states as float32, in the worker's memory unless they are float32.
struct FloatRows {
  const float* data;
  std::int64_t stride;
};

FloatRows float_rows_of(const RowMatrix& hidden, std::int64_t first, std::int64_t count,
                        std::vector<float>& widened) {
  if (hidden.type == RowType::kFloat32) return {row_at<float>(hidden, first), hidden.stride};
  widened.resize(static_cast<std::size_t>(count * hidden.width));
  for (std::int64_t r = 0; r < count; ++r) widen_row(hidden, first + r, widened.data() + r * hidden.width);
  return {widened.data(), hidden.width};
}

// One pass over a head that is not packed, for rows [first_row, first_row + rows): each tile is laid out
// once, and all blocks of rows meet it while it is in cache.
void score_rows_pass(const RowMatrix& weight, std::int64_t ids, const RowMatrix& hidden,
                     std::int64_t first_row, std::int64_t rows, const ParallelFor& parallel,
                     const TileScores& scores, const LogitTransform& transform,
                     std::vector<LogSum>& sums_ST) {
  const TilePass pass{.ids = ids, .rows = rows, .scores = scores, .sums_ST = sums_ST};
  const std::int64_t tile_panels = (pass.widest + kPanelWidth - 1) / kPanelWidth;
  const std::int64_t together = rows <= kTileRows ? std::min(kFewPanels, tile_panels) : tile_panels;
  pass.run(parallel, [&](TileWorker& worker, std::int64_t i) {
    const std::int64_t first = pass.first(i), width = pass.width(i);
    if (!worker.panels)
      worker.panels.reset(
          new (kPanelAlignment) float[static_cast<std::size_t>(together * kPanelWidth * weight.width)]);
    worker.logits.resize(static_cast<std::size_t>(std::min(rows, kTileRows) * width));
    float* const logits = worker.logits.data();
    for (std::int64_t at = 0; at < width; at += together * kPanelWidth) {
      const std::int64_t count = std::min(together * kPanelWidth, width - at);
      pack_rows(weight, first + at, count, worker.panels.get());
      const Product part{.weight = {.panels = worker.panels.get(),
                                    .panel_count = (count + kPanelWidth - 1) / kPanelWidth,
                                    .inputs = weight.width},
                         .outputs = count};
      for (std::int64_t r = 0; r < rows; r += kTileRows) {
        const std::int64_t block = std::min(kTileRows, rows - r);
        const FloatRows from = float_rows_of(hidden, first_row + r, block, worker.hidden);
        multiply_panels(part, from.data, block, from.stride, 0, part.weight.panel_count, logits + at, width);
        if (at + count < width) continue;  // a single block of rows, and more panels to come
        transform_logits(transform, first, block, width, width, logits);
        pass.take(worker, i, r, block, logits, width);
      }
    }
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
    const FloatRows from = float_rows_of(hidden, t, count, widened);
    score_block(head, from.data, from.stride, count, parallel, rows_from(scores, t), nullptr, sums_ST);
  }
}

void score_rows(const RowMatrix& weight, std::int64_t ids, const RowMatrix& hidden, std::int64_t rows,
                const ParallelFor& parallel, const TileScores& scores, const LogitTransform& transform) {
  const std::int64_t widest = tile_width(ids), tiles = (ids + widest - 1) / widest;
  const std::int64_t sum_bytes = tiles * static_cast<std::int64_t>(sizeof(LogSum));
  const std::int64_t state_bytes =
      row_topk_capacity(scores.k) * std::int64_t{8} + static_cast<std::int64_t>(sizeof(RowTopk));
  const std::int64_t most = std::max(std::min(kPassSumBytes / sum_bytes, kPassStateBytes / state_bytes),
                                     std::clamp<std::int64_t>(kStateBytes / state_bytes, 1, kTileRows));
  const std::int64_t passes = (rows + most - 1) / most;  // of equally many rows
  std::vector<LogSum> sums_ST;
  for (std::int64_t p = 0; p < passes; ++p) {
    const std::int64_t first = rows * p / passes, count = rows * (p + 1) / passes - first;
    score_rows_pass(weight, ids, hidden, first, count, parallel, rows_from(scores, first), transform,
                    sums_ST);
  }
}

void score_keeping_logits(const Product& head, const float* hidden_TH, std::int64_t rows,
                          const ParallelFor& parallel, const TileScores& scores, float* logits_TR,
                          std::vector<LogSum>& sums_ST) {
  score_block(head, hidden_TH, head.weight.inputs, rows, parallel, scores, logits_TR, sums_ST);
}

}  // namespace routeopd::kernels
