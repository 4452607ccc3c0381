// What scoring needs of softmax(hidden W^T) at each row of hidden states, in one pass over tiles of the
// vocabulary: the k largest logits with their ids, the log-sum-exp, the entropy where that is wanted, and the
// logits at ids given by the caller. [T, R] is never held: a thread holds the logits of 96 rows at 1,024 ids,
// in cache, and the row kernel (row_topk.h) and the gathers read them there. Decoding, which samples from a
// few rows at a time, asks for the same with the logits kept.
//
// Threads take the next tile when they are done with one; every result is bitwise the same for any number of
// threads.
//
// Shapes: T rows, H hidden size, R ids, K <= R of the top-k, G ids gathered per row, S tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/kernels/head_tiles.h"
#include "routeopd/kernels/packed_gemm.h"
#include "routeopd/kernels/parallel_for.h"
#include "routeopd/kernels/row_matrix.h"
#include "routeopd/kernels/row_topk.h"

namespace routeopd::kernels {

// Where the answers go, and the ids to gather.
struct TileScores {
  std::int32_t k = 0;                  // K
  std::int32_t* top_ids_TK = nullptr;  // logits descending, equal logits by ascending id
  float* top_logits_TK = nullptr;
  float* logsumexp_T = nullptr;
  float* entropy_T = nullptr;                   // nats; null: not wanted. NaN where logsumexp is not finite
  std::int64_t gathers = 0;                     // G
  const std::int32_t* gather_ids_TG = nullptr;  // in [-1, R), -1 pads
  float* gathered_TG = nullptr;                 // NaN where the id is -1
};

// Ids in a tile: tiles of nearly equal size, their number a multiple of 8 so that 2, 4 or 8 threads end
// together. A function of the vocabulary alone: the result must not depend on the threads.
std::int64_t tile_width(std::int64_t ids);

// The head is a product of kStore without a bias, its outputs the R ids; hidden holds T rows.
void score_tiles(const Product& head, const RowMatrix& hidden, std::int64_t rows, const ParallelFor& parallel,
                 const TileScores& scores);

// The same over a head as it lies in memory, its rows [0, ids) the R ids, of any type, without a packed copy:
// a thread lays out one tile of the head at a time, and all rows meet it while it is in cache. Equal bit for
// bit to score_tiles() on a packed copy of the head. `transform` makes the products logits before anything
// else reads them.
//
// Memory, beside the answers: each thread holds a tile of the head (1,024 x H floats: 6 MB for H = 1,536), 96
// rows of it in logits and, widened, in hidden states, and 4 MB of top-k states; all together hold 16 MB of
// sums. More rows than these have room for take several passes over the head.
void score_rows(const RowMatrix& weight, std::int64_t ids, const RowMatrix& hidden, std::int64_t rows,
                const ParallelFor& parallel, const TileScores& scores, const LogitTransform& transform = {});

// The same as score_tiles() for all rows at once, with their logits kept, rows R apart, and the sum of
// exponentials over each tile.
void score_keeping_logits(const Product& head, const float* hidden_TH, std::int64_t rows,
                          const ParallelFor& parallel, const TileScores& scores, float* logits_TR,
                          std::vector<LogSum>& sums_ST);

}  // namespace routeopd::kernels
