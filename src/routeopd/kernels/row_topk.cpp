// How the work stays bounded. A row is read in sub-tiles of 4,096 values, which fit the first-level cache.
// The first pass stores the lane-wise maxima of groups of 16 vectors: 256 distinct values of the sub-tile,
// whatever the vector length. If k of them beat the row's threshold, the k-th largest of them is a lower
// bound of the k-th largest value and becomes the threshold. Then less than k lanes hold anything above it,
// so at most 16 k values of a sub-tile become candidates, in any order of the input (a short first sub-tile
// has maxima of 4 values or 1, so that k are far from all of them); of the values equal to
// the threshold only the first k are looked at. The second pass sums the exponentials, from the cache.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/row_topk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/kernels/row_topk.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef ROUTEOPD_ROW_TOPK_ONCE
#define ROUTEOPD_ROW_TOPK_ONCE
namespace routeopd::kernels {

constexpr std::size_t kSubtile = 4096;  // 16 KiB
constexpr std::size_t kGroup = 16;      // vectors under one vector of maxima
constexpr std::size_t kPerWanted = 4;   // maxima for each of the k values, of a row's first sub-tile
// Beyond it the exponent no longer fits the rounding trick of exp_sum.
constexpr float kLargestForVectors = 0x1p20F;

}  // namespace routeopd::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
constexpr std::size_t kMaxLanes = 16;

// A sub-tile as groups of kGroup vectors; the last, incomplete group is a copy padded with -inf.
struct Subtile {
  const float* data;
  const float* tail;
  std::size_t size;
  std::size_t groups;
  std::size_t full_groups;

  const float* group(std::size_t g, std::size_t lanes) const {
    return g < full_groups ? data + g * kGroup * lanes : tail;
  }
};

// sum 2^(c x - exponent), exponent = round(c max). Per value: n = round(c x) by adding 1.5 * 2^23, which
// leaves n - exponent + 127 in the low bits, ready to be shifted into a float's exponent (no more than 0: a
// scale of zero); f = c x - n in one rounding; 2^f by a polynomial on [-1/2, 1/2] of relative error 1.1e-7.
// NaN stays NaN. So do, if kClamp is false, values so far below (-inf for one) that f is no number: the sum
// is then NaN and to be taken again with kClamp, which spares the usual tile a seventh of its instructions.
// kEntropy adds sum y 2^y, y = c x - exponent; the scale is a power of two, so the product by it is exact and
// the plain sum has the same bits as without.
template <bool kClamp, bool kEntropy>
HWY_ATTR LogSum exp_sum(const Subtile& tile, float max) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const std::size_t lanes = hn::Lanes(d);
  const float exponent = std::nearbyint(max * LogSum::kLog2e);
  const auto log2e = hn::Set(d, LogSum::kLog2e);
  const auto magic = hn::Set(d, 0x1.8p23F + 127.0F - exponent);
  const auto zero_bits = hn::Set(di, 0x4B400000);  // of 1.5 * 2^23
  const auto lowest = hn::Set(d, (exponent - 200.0F) / LogSum::kLog2e);
  const auto c5 = hn::Set(d, 0.001326479483395815F);
  const auto c4 = hn::Set(d, 0.009671538136899471F);
  const auto c3 = hn::Set(d, 0.05550733953714371F);
  const auto c2 = hn::Set(d, 0.24022242426872253F);
  const auto c1 = hn::Set(d, 0.6931470036506653F);
  const auto one = hn::Set(d, 1.0F);
  [[maybe_unused]] const auto exponents = hn::Set(d, exponent);
  [[maybe_unused]] auto weighted = hn::Zero(d);
  const auto add_exp = [&](const float* from, hn::Vec<Floats> sum) HWY_ATTR {
    auto x = hn::LoadU(d, from);
    if constexpr (kClamp) x = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);  // keeps NaN, as Max need not
    const auto shifted = hn::MulAdd(x, log2e, magic);
    const auto f = hn::MulSub(x, log2e, hn::Sub(shifted, magic));
    auto p = hn::MulAdd(c5, f, c4);
    p = hn::MulAdd(p, f, c3);
    p = hn::MulAdd(p, f, c2);
    p = hn::MulAdd(p, f, c1);
    p = hn::MulAdd(p, f, one);
    const auto scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Max(hn::BitCast(di, shifted), zero_bits)));
    if constexpr (kEntropy)
      weighted = hn::MulAdd(hn::Mul(p, scale), hn::MulSub(x, log2e, exponents), weighted);
    return hn::MulAdd(p, scale, sum);
  };
  // Three levels of partial sums: 4 terms, 8 groups, the rest. Float32 rounding then stays near 1e-7 even if
  // it is systematic, as for equal values.
  auto total = hn::Zero(d), eight = hn::Zero(d), total_weighted = hn::Zero(d);
  for (std::size_t g = 0; g < tile.groups; ++g) {
    const float* from = tile.group(g, lanes);
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    for (std::size_t i = 0; i < kGroup; i += 4) {
      s0 = add_exp(from + (i + 0) * lanes, s0);
      s1 = add_exp(from + (i + 1) * lanes, s1);
      s2 = add_exp(from + (i + 2) * lanes, s2);
      s3 = add_exp(from + (i + 3) * lanes, s3);
    }
    eight = hn::Add(eight, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
    if (g % 8 == 7) {
      total = hn::Add(total, eight);
      eight = hn::Zero(d);
    }
    if constexpr (kEntropy) {
      total_weighted = hn::Add(total_weighted, weighted);
      weighted = hn::Zero(d);
    }
  }
  HWY_ALIGN float lane_sums[kMaxLanes];
  const auto over_lanes = [&](hn::Vec<Floats> sums) HWY_ATTR {
    hn::Store(sums, d, lane_sums);
    return std::accumulate(lane_sums, lane_sums + lanes, 0.0);
  };
  const double scaled = over_lanes(hn::Add(total, eight));
  return {scaled, exponent, kEntropy ? over_lanes(total_weighted) : 0.0};
}

template <bool kEntropy>
HWY_ATTR LogSum log_sum(const Subtile& tile, float max) {
  if (!(std::abs(max) < kLargestForVectors)) return LogSum::of(tile.data, tile.size);
  const LogSum sum = exp_sum<false, kEntropy>(tile, max);
  return std::isnan(sum.scaled) ? exp_sum<true, kEntropy>(tile, max) : sum;
}

// Stores the maxima of the groups' lanes and returns the largest. NaN may be passed over: log_sum finds it.
HWY_ATTR float lane_maxima(const Subtile& tile, float* maxima) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto largest = lowest;
  for (std::size_t g = 0; g < tile.groups; ++g) {
    const float* from = tile.group(g, lanes);
    auto m0 = lowest, m1 = lowest;
    for (std::size_t i = 0; i < kGroup; i += 2) {
      m0 = hn::Max(hn::LoadU(d, from + i * lanes), m0);
      m1 = hn::Max(hn::LoadU(d, from + (i + 1) * lanes), m1);
    }
    m0 = hn::Max(m0, m1);
    hn::Store(m0, d, maxima + g * lanes);
    largest = hn::Max(m0, largest);
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// How many of the maxima are at or above the limit.
HWY_ATTR std::int32_t count_reaching(const float* maxima, std::size_t count, float limit) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const std::size_t lanes = hn::Lanes(d);
  const auto limits = hn::Set(d, limit);
  auto minus_reaching = hn::Zero(di);  // a true lane is -1
  for (std::size_t i = 0; i < count; i += lanes) {
    const auto reaches = hn::Ge(hn::Load(d, maxima + i), limits);
    minus_reaching = hn::Add(minus_reaching, hn::BitCast(di, hn::VecFromMask(d, reaches)));
  }
  return -hn::GetLane(hn::SumOfLanes(di, minus_reaching));
}

// Stores the maxima of the lanes of every kVectors vectors, a divisor of kGroup, and returns their number.
template <std::size_t kVectors>
HWY_ATTR std::size_t finer_maxima(const Subtile& tile, float* maxima) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t count = 0;
  for (std::size_t g = 0; g < tile.groups; ++g) {
    const float* from = tile.group(g, lanes);
    for (std::size_t i = 0; i < kGroup; i += kVectors, count += lanes) {
      auto largest = hn::LoadU(d, from + i * lanes);
      for (std::size_t j = i + 1; j < i + kVectors; ++j)
        largest = hn::Max(hn::LoadU(d, from + j * lanes), largest);
      hn::Store(largest, d, maxima + count);
    }
  }
  return count;
}

// Raises the threshold to the k-th largest of the maxima, if that many beat it: bisection over the
// order-preserving images of floats, at most 32 counts, each of them shorter than one wrong branch of a
// selection. The k-th largest of few maxima is a low bound, or none; so a short row, which no sub-tile
// before this one has raised a threshold for, is given maxima of fewer values, at least kPerWanted k of them.
HWY_ATTR void raise_threshold(RowTopk& top, const Subtile& tile, const float* maxima, std::size_t count,
                              float max) {
  HWY_ALIGN float finer[kSubtile];
  const std::size_t enough = kPerWanted * static_cast<std::size_t>(top.k);
  if (tile.size < kGroup * enough && top.threshold == -std::numeric_limits<float>::infinity()) {
    count = tile.size < 4 * enough ? finer_maxima<1>(tile, finer) : finer_maxima<4>(tile, finer);
    maxima = finer;
  }
  std::uint32_t low = ordered_bits(top.threshold) + 1;  // reached by k or more, if at all
  std::uint32_t high = ordered_bits(max) + 1;           // reached by none
  if (high <= low || count_reaching(maxima, count, ordered_value(low)) < top.k) return;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    const std::int32_t reaching = count_reaching(maxima, count, ordered_value(middle));
    (reaching >= top.k ? low : high) = middle;
    if (reaching == top.k) break;
  }
  top.raise(ordered_value(low));
}

// Offers what may be among the k largest, in ascending order of ids.
HWY_ATTR void collect(RowTopk& top, const Subtile& tile, const float* maxima, std::int32_t first_id) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  bool strict = top.ties_are_late(first_id);
  std::int32_t ties = 0;
  for (std::size_t g = 0; g < tile.groups; ++g) {
    const auto threshold = hn::Set(d, top.threshold);
    const auto reaches = [&](hn::Vec<Floats> v)
                             HWY_ATTR { return strict ? hn::Gt(v, threshold) : hn::Ge(v, threshold); };
    if (hn::AllFalse(d, reaches(hn::Load(d, maxima + g * lanes)))) continue;
    const float* from = tile.group(g, lanes);
    std::array<std::uint64_t, kGroup * kMaxLanes / 64> words{};
    // Little-endian bits, one byte for every 8 lanes or fewer.
    auto* bytes = reinterpret_cast<std::uint8_t*>(words.data());
    for (std::size_t i = 0; i < kGroup; ++i) {
      bytes += hn::StoreMaskBits(d, reaches(hn::LoadU(d, from + i * lanes)), bytes);
    }
    for (std::size_t w = 0; w < words.size(); ++w) {
      for (std::uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
        const std::size_t bit = static_cast<std::size_t>(std::countr_zero(bits));
        const std::size_t at = (w * 8 + bit / 8) * std::min<std::size_t>(lanes, 8) + bit % 8;
        const std::size_t position = g * kGroup * lanes + at;
        if (position >= tile.size) return;
        const float value = from[at];
        if (value == top.threshold) {
          if (strict) continue;
          strict = ++ties >= top.k;
        }
        const float before = top.threshold;
        const std::int32_t id = first_id + static_cast<std::int32_t>(position);
        top.offer(value, id);
        if (top.threshold > before) {
          strict = top.ties_are_late(id + 1);
          ties = 0;
        }
      }
    }
  }
}

HWY_ATTR void scan(RowTopk* states, LogSum* sums, const float* logits, std::int64_t rows, std::int64_t cols,
                   std::int64_t stride, std::int32_t first_id, bool entropy) {
  const Floats d;
  const std::size_t per_group = kGroup * hn::Lanes(d);
  HWY_ALIGN float maxima[kSubtile / kGroup];
  HWY_ALIGN float tail[kGroup * kMaxLanes];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; c += static_cast<std::int64_t>(kSubtile)) {
      Subtile tile{logits + r * stride + c, tail, 0, 0, 0};
      tile.size = std::min(kSubtile, static_cast<std::size_t>(cols - c));
      tile.full_groups = tile.size / per_group;
      tile.groups = tile.full_groups;
      if (const std::size_t done = tile.full_groups * per_group; done < tile.size) {
        std::fill(std::copy(tile.data + done, tile.data + tile.size, tail), tail + per_group,
                  -std::numeric_limits<float>::infinity());
        ++tile.groups;
      }
      const float max = lane_maxima(tile, maxima);
      const std::int32_t tile_id = first_id + static_cast<std::int32_t>(c);
      if (max > states[r].threshold || (max == states[r].threshold && !states[r].ties_are_late(tile_id))) {
        raise_threshold(states[r], tile, maxima, tile.groups * hn::Lanes(d), max);
        collect(states[r], tile, maxima, tile_id);
      }
      sums[r].add(entropy ? log_sum<true>(tile, max) : log_sum<false>(tile, max));
    }
  }
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::kernels {

HWY_EXPORT(scan);

void row_topk_scan(RowTopk* states, LogSum* sums, const float* logits, std::int64_t rows, std::int64_t cols,
                   std::int64_t stride, std::int32_t first_id, bool entropy) {
  HWY_DYNAMIC_DISPATCH(scan)(states, sums, logits, rows, cols, stride, first_id, entropy);
}

void topk_logsumexp(const float* logits, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                    std::int32_t k, float* values, std::int32_t* ids, float* lse) {
  const auto keys = std::make_unique<std::uint64_t[]>(static_cast<std::size_t>(row_topk_capacity(k)));
  for (std::int64_t r = 0; r < rows; ++r) {
    RowTopk top(keys.get(), k);
    LogSum sum;
    row_topk_scan(&top, &sum, logits + r * stride, 1, cols, stride, 0);
    top.finish(values + r * k, ids + r * k);
    lse[r] = static_cast<float>(sum.log());
  }
}

void reference_topk_logsumexp(const float* logits, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                              std::int32_t k, float* values, std::int32_t* ids, float* lse) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<std::int32_t> order(static_cast<std::size_t>(cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* x = logits + r * stride;
    const std::int64_t kept = std::min<std::int64_t>(k, cols);
    double max = -inf;
    bool has_nan = false;
    for (std::int64_t c = 0; c < cols; ++c) {
      has_nan = has_nan || std::isnan(x[c]);
      max = std::max(max, static_cast<double>(x[c]));
    }
    std::iota(order.begin(), order.end(), 0);
    const auto before = [x](std::int32_t a, std::int32_t b) {
      return x[a] > x[b] || (x[a] == x[b] && a < b);
    };
    if (!has_nan) std::partial_sort(order.begin(), order.begin() + kept, order.end(), before);
    for (std::int64_t i = 0; i < k; ++i) {
      ids[r * k + i] = i < kept ? order[static_cast<std::size_t>(i)] : -1;
      values[r * k + i] = i < kept ? x[ids[r * k + i]] : -inf;
    }
    double sum = 0.0;
    for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(x[c]) - max);
    lse[r] = has_nan ? std::numeric_limits<float>::quiet_NaN()
                     : static_cast<float>(std::isinf(max) ? max : max + std::log(sum));
  }
}

}  // namespace routeopd::kernels
#endif
