// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/block_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/kernels/block_attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
#include "routeopd/kernels/panel-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The scratch of one call. Rows are (token, head) pairs.
struct Rows {
  float* query;   // [rows, D]
  float* scores;  // [rows, kAttentionGroup], then probabilities
  float* out;     // [rows, D]
  float* sums;    // [rows, 16]: the softmax's denominator, lane by lane
  float* top;     // [rows]
  float* scale;   // [rows]: of what was summed before this group
};

// scores[r][0..16) = query_r . keys of one block.
template <int R>
HWY_INLINE void score_strip(const float* HWY_RESTRICT query, std::int64_t head_dim,
                            const float* HWY_RESTRICT keys, float* HWY_RESTRICT scores) {
  const F d;
  const std::int64_t query_stride = padded_head(head_dim);
  V sum[R][kVectors];
  ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
    ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < head_dim; ++i) {
    V key[kVectors];
    ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) key[v] = hn::Load(d, part_of(keys + i * 16, v));
    ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
      const V value = hn::Set(d, query[r * query_stride + i]);
      ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(value, key[v], sum[r][v]);
    }
  }
  ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
    ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v)
        hn::Store(sum[r][v], d, part_of(scores + r * kAttentionGroup, v));
  }
}

// out[r][c..c+16) = out * scale_r + sum over positions of probability * value.
template <int R>
HWY_INLINE void value_strip(const Rows& rows, std::int64_t r0, const BlockAttention& work,
                            const std::int32_t* table, std::int64_t positions, std::int64_t column) {
  const F d;
  V sum[R][kVectors];
  const std::int64_t dim = padded_head(work.head_dim);
  ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
    const V scale = hn::Set(d, rows.scale[r0 + r]);
    ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] =
        hn::Mul(hn::Load(d, part_of(rows.out + (r0 + r) * dim + column, v)), scale);
  }
  for (std::int64_t b = 0; b * kBlockPositions < positions; ++b) {
    const float* HWY_RESTRICT values =
        work.blocks + table[b] * work.block_stride + work.head_dim * kBlockPositions + column;
    const float* HWY_RESTRICT chances = rows.scores + r0 * kAttentionGroup + b * kBlockPositions;
    const std::int64_t count = std::min(kBlockPositions, positions - b * kBlockPositions);
    for (std::int64_t i = 0; i < count; ++i) {
      V value[kVectors];
      ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) value[v] = hn::Load(d, part_of(values + i * dim, v));
      ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
        const V chance = hn::Set(d, chances[r * kAttentionGroup + i]);
        ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] =
            hn::MulAdd(chance, value[v], sum[r][v]);
      }
    }
  }
  ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
    ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v)
        hn::Store(sum[r][v], d, part_of(rows.out + (r0 + r) * dim + column, v));
  }
}

// Scores of a group to probabilities relative to the largest score so far; `visible` of them count.
HWY_INLINE void soften_row(const Rows& rows, std::int64_t r, std::int64_t padded, std::int64_t visible) {
  const F d;
  float* HWY_RESTRICT scores = rows.scores + r * kAttentionGroup;
  for (std::int64_t i = std::max<std::int64_t>(visible, 0); i < padded; ++i) scores[i] = kMinusInfinity;
  V largest = hn::Set(d, rows.top[r]);
  const auto lanes = static_cast<std::int64_t>(kLanes);
  for (std::int64_t i = 0; i < padded; i += lanes) largest = hn::Max(largest, hn::Load(d, scores + i));
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  const V shift = hn::Set(d, top);
  const float scale = hn::GetLane(hn::Exp(d, hn::Sub(hn::Set(d, rows.top[r]), shift)));
  V sums[kVectors];
  ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) sums[v] =
      hn::Mul(hn::Load(d, part_of(rows.sums + r * 16, v)), hn::Set(d, scale));
  for (std::int64_t i = 0; i < padded; i += 16) {
    ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) {
      const V chance = hn::Exp(d, hn::Sub(hn::Load(d, part_of(scores + i, v)), shift));
      hn::Store(chance, d, part_of(scores + i, v));
      sums[v] = hn::Add(sums[v], chance);
    }
  }
  ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) hn::Store(sums[v], d, part_of(rows.sums + r * 16, v));
  rows.top[r] = top;
  rows.scale[r] = scale;
}

void attend(const BlockAttention& work, float* scratch) {
  const F d;
  const std::int64_t dim = padded_head(work.head_dim), count = work.tokens * work.heads;
  Rows rows{};
  rows.query = scratch;
  rows.scores = rows.query + count * dim;
  rows.out = rows.scores + count * kAttentionGroup;
  rows.sums = rows.out + count * dim;
  rows.top = rows.sums + count * 16;
  rows.scale = rows.top + count;
  for (std::int64_t r = 0; r < count; ++r) {
    const float* const from = work.query + r / work.heads * work.stride + r % work.heads * work.head_dim;
    std::copy_n(from, work.head_dim, rows.query + r * dim);
    rows.top[r] = std::numeric_limits<float>::lowest();  // finite, so that a difference of equals is 0
  }
  std::fill_n(rows.out, count * dim, 0.0F);
  std::fill_n(rows.sums, count * 16, 0.0F);

  const std::int64_t positions = work.first_position + work.tokens;
  for (std::int64_t first = 0; first < positions; first += kAttentionGroup) {
    const std::int64_t here = std::min(kAttentionGroup, positions - first);
    const std::int64_t blocks = (here + kBlockPositions - 1) / kBlockPositions;
    const std::int32_t* const table = work.table + first / kBlockPositions;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float* const keys = work.blocks + table[b] * work.block_stride;
      in_strips(count, [&](auto width, std::int64_t r) HWY_ATTR {
        score_strip<decltype(width)::value>(rows.query + r * dim, work.head_dim, keys,
                                            rows.scores + r * kAttentionGroup + b * kBlockPositions);
      });
    }
    for (std::int64_t r = 0; r < count; ++r)
      soften_row(rows, r, blocks * kBlockPositions, work.first_position + r / work.heads + 1 - first);
    for (std::int64_t column = 0; column < dim; column += 16) {
      in_strips(count, [&](auto width, std::int64_t r) HWY_ATTR {
        value_strip<decltype(width)::value>(rows, r, work, table, here, column);
      });
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    V sums[kVectors];
    for (int v = 0; v < kVectors; ++v) sums[v] = hn::Load(d, part_of(rows.sums + r * 16, v));
    const V whole = hn::Set(d, sum_of_lanes(sums));
    float* const from = rows.out + r * dim;
    for (std::int64_t i = 0; i < dim; i += static_cast<std::int64_t>(kLanes))
      hn::Store(hn::Div(hn::Load(d, from + i), whole), d, from + i);
    std::copy_n(from, work.head_dim,
                work.out + r / work.heads * work.out_stride + r % work.heads * work.head_dim);
  }
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::kernels {

HWY_EXPORT(attend);

std::int64_t attention_scratch(std::int64_t rows, std::int64_t head_dim) {
  return rows * (2 * padded_head(head_dim) + kAttentionGroup + 16 + 2);
}

void attend_blocks(const BlockAttention& work, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attend)(work, scratch);
}

void write_key_value(const float* key_D, const float* value_D, std::int64_t head_dim, std::int64_t slot,
                     float* block) {
  for (std::int64_t i = 0; i < head_dim; ++i) block[i * kBlockPositions + slot] = key_D[i];
  std::copy_n(value_D, head_dim, block + kBlockPositions * head_dim + slot * padded_head(head_dim));
}

void reference_attend_blocks(const BlockAttention& work) {
  const std::int64_t dim = work.head_dim;
  for (std::int64_t r = 0; r < work.tokens * work.heads; ++r) {
    const std::int64_t token = r / work.heads, head = r % work.heads;
    const float* const query = work.query + token * work.stride + head * dim;
    std::vector<double> chances, out(static_cast<std::size_t>(dim));
    double top = -std::numeric_limits<double>::infinity(), whole = 0;
    for (std::int64_t p = 0; p <= work.first_position + token; ++p) {
      const float* const block = work.blocks + work.table[p / kBlockPositions] * work.block_stride;
      double score = 0;
      for (std::int64_t i = 0; i < dim; ++i)
        score += static_cast<double>(query[i]) *
                 static_cast<double>(block[i * kBlockPositions + p % kBlockPositions]);
      chances.push_back(score);
      top = std::max(top, score);
    }
    for (std::size_t p = 0; p < chances.size(); ++p) {
      const auto at = static_cast<std::int64_t>(p);
      const double chance = std::exp(chances[p] - top);
      whole += chance;
      const float* const value = work.blocks + work.table[at / kBlockPositions] * work.block_stride +
                                 kBlockPositions * dim + at % kBlockPositions * padded_head(dim);
      for (std::int64_t i = 0; i < dim; ++i)
        out[static_cast<std::size_t>(i)] += chance * static_cast<double>(value[i]);
    }
    for (std::int64_t i = 0; i < dim; ++i)
      work.out[token * work.out_stride + head * dim + i] =
          static_cast<float>(out[static_cast<std::size_t>(i)] / whole);
  }
}

}  // namespace routeopd::kernels
#endif
