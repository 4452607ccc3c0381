// What a walk over a row of logits remembers, free of the order in which tiles come: the sum of exponentials
// in two factors, and the set of the k best keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace routeopd::kernels {

// sum_i exp(x_i) in two factors, scaled * 2^exponent, so that no logit overflows. Pieces of a row are added
// in any order; a fixed order gives a fixed last bit. The kernel writes exp(x) = 2^(c x) with c = log2(e)
// rounded to float32, and log() takes that rounding back to within 1.4e-8 times the entropy of the row (12
// nats for V = 151,936).
struct LogSum {
  static constexpr float kLog2e = 1.44269504F;

  double scaled = 0.0;
  double exponent = 0.0;
  // sum_i y_i 2^y_i with y = c x - exponent, for entropy(). A walk that was not asked for it leaves 0.
  double weighted = 0.0;

  // The sum over n values, one by one in double precision: for values of any size, infinities and NaN.
  static LogSum of(const float* x, std::size_t n);

  void add(const LogSum& other);

  // NaN when a NaN was seen; else +inf when +inf was seen; else finite, or -inf when nothing but -inf was
  // seen. So a row is usable exactly when this is finite.
  double log() const;

  // Of softmax(x), in nats: log sum exp(x) - E[x]. NaN where log() is not finite.
  double entropy() const;
};

// Number of keys that the caller must own for the state of one row. Once it is full, all but k are dropped.
constexpr std::int32_t row_topk_capacity(std::int32_t k) {
  return k + (k < 32 ? 64 : (k < 1536 ? 2 * k : 3072));
}

// Floats as unsigned integers of the same order; -0 becomes +0, its equal.
inline std::uint32_t ordered_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
inline float ordered_value(std::uint32_t ordered) {
  return std::bit_cast<float>((ordered & 0x80000000U) != 0 ? ordered & 0x7fffffffU : ~ordered);
}

// The best values of one row so far, over the caller's memory. A key is the value's order-preserving image in
// the high word and the complement of its id in the low one: larger keys come first in the answer.
struct RowTopk {
  std::uint64_t* keys = nullptr;  // [row_topk_capacity(k)], of which `count` are in use, unordered
  std::int32_t k = 0;
  std::int32_t count = 0;
  std::uint64_t floor_key = 0;                                // no smaller key is in the answer
  float threshold = -std::numeric_limits<float>::infinity();  // the value of floor_key

  RowTopk() = default;
  RowTopk(std::uint64_t* memory, std::int32_t wanted) : keys(memory), k(wanted) {}

  // Takes one value; not NaN.
  void offer(float value, std::int32_t id) { push(make_key(value, id)); }

  // Takes what another state of the same row has seen.
  void merge(const RowTopk& other);

  // Writes the k best in order. A row that offered fewer than k values ends in ids of -1 with values of -inf.
  void finish(float* values, std::int32_t* ids);

  // Declares that at least k values at or above `value` exist, all of them offered or about to be.
  void raise(float value) {
    threshold = value;
    floor_key = make_key(value, -1);
  }

  // Whether values equal to the threshold are of no use when their ids are `id` or larger.
  bool ties_are_late(std::int32_t id) const {
    return ~static_cast<std::uint32_t>(floor_key) < static_cast<std::uint32_t>(id);
  }

 private:
  static std::uint64_t make_key(float value, std::int32_t id) {
    return std::uint64_t{ordered_bits(value)} << 32 | ~static_cast<std::uint32_t>(id);
  }
  static float key_value(std::uint64_t key) { return ordered_value(static_cast<std::uint32_t>(key >> 32)); }
  void push(std::uint64_t key) {
    if (key < floor_key) return;
    keys[count++] = key;
    if (count == row_topk_capacity(k)) compact();
  }
  void compact();
};

}  // namespace routeopd::kernels
