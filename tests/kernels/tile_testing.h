// Where the tests of the passes over tiles of the vocabulary have their answers written, compared by bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel_testing.h"
#include "routeopd/kernels/vocabulary_tiles.h"

namespace routeopd::kernels::testing {

struct TileAnswers {
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_logits, logsumexp, entropy, gathered;

  TileAnswers(std::int64_t rows, std::int32_t k, std::int64_t gathers)
      : top_ids(static_cast<std::size_t>(rows * k), -7),
        top_logits(top_ids.size(), -7),
        logsumexp(static_cast<std::size_t>(rows), -7),
        entropy(logsumexp),
        gathered(static_cast<std::size_t>(rows * gathers), -7) {}
  TileScores view(std::int32_t k, std::int64_t gathers, const std::int32_t* gather_ids) {
    return {.k = k,
            .top_ids_TK = top_ids.data(),
            .top_logits_TK = top_logits.data(),
            .logsumexp_T = logsumexp.data(),
            .entropy_T = entropy.data(),
            .gathers = gathers,
            .gather_ids_TG = gather_ids,
            .gathered_TG = gathered.data()};
  }
};

// NaN, which pads gathered values and is what a row with NaN sums to, equals itself here.
inline std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

inline void expect_same_bits(const TileAnswers& got, const TileAnswers& expected) {
  EXPECT_EQ(got.top_ids, expected.top_ids);
  EXPECT_EQ(bits_of(got.top_logits), bits_of(expected.top_logits));
  EXPECT_EQ(bits_of(got.logsumexp), bits_of(expected.logsumexp));
  EXPECT_EQ(bits_of(got.entropy), bits_of(expected.entropy));
  EXPECT_EQ(bits_of(got.gathered), bits_of(expected.gathered));
}

}  // namespace routeopd::kernels::testing
