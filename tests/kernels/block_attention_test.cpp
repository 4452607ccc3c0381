// Attention over blocks against double precision, and its independence of how many tokens are read together.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/block_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernel_testing.h"

namespace routeopd::kernels::testing {
namespace {

// A sequence of keys and values in blocks that lie in another order than their positions.
struct Sequence {
  std::int64_t positions, head_dim, heads;
  std::vector<std::int32_t> table;
  std::vector<float> query;  // [positions, heads, D]
  AlignedFloats blocks;

  Sequence(std::int64_t count, std::int64_t dim, std::int64_t group, float scale)
      : positions(count),
        head_dim(dim),
        heads(group),
        query(random_floats(count * group * dim, static_cast<unsigned>(dim), scale)),
        blocks((count + 15) / 16 * block_floats(dim)) {
    std::mt19937 random(static_cast<std::uint32_t>(count * 1000 + dim));
    std::normal_distribution<float> normal;
    const std::int64_t used = (count + 15) / 16;
    for (std::int64_t i = 0; i < used; ++i) table.push_back(static_cast<std::int32_t>(i));
    std::shuffle(table.begin(), table.end(), random);
    std::fill_n(blocks.data(), used * block_floats(dim), 0.0F);
    std::vector<float> key(static_cast<std::size_t>(dim)), value(key.size());
    for (std::int64_t p = 0; p < count; ++p) {
      for (float& x : key) x = normal(random);
      for (float& x : value) x = normal(random);
      write_key_value(key.data(), value.data(), dim, p % 16,
                      blocks.data() + table[static_cast<std::size_t>(p / 16)] * block_floats(dim));
    }
  }

  BlockAttention work(std::int64_t first, std::int64_t tokens, std::vector<float>& out) const {
    return {.query = query.data() + first * heads * head_dim,
            .stride = heads * head_dim,
            .tokens = tokens,
            .heads = heads,
            .head_dim = head_dim,
            .first_position = first,
            .blocks = blocks.data(),
            .block_stride = block_floats(head_dim),
            .table = table.data(),
            .out = out.data() + first * heads * head_dim,
            .out_stride = heads * head_dim};
  }

  // All tokens, `tile` at a time.
  std::vector<float> attend(std::int64_t tile) const {
    std::vector<float> out(query.size(), -1);
    const AlignedFloats scratch(attention_scratch(std::max(kAttentionRows, heads), head_dim));
    for (std::int64_t first = 0; first < positions; first += tile)
      attend_blocks(work(first, std::min(tile, positions - first), out), scratch.data());
    return out;
  }
};

TEST(BlockAttention, EqualsDoublePrecision) {
  for (const std::int64_t dim : {4, 16, 20, 64, 128}) {
    for (const std::int64_t heads : {1, 3, 7}) {
      for (const std::int64_t positions : {1, 16, 17, 129, 300}) {
        for (const float scale : {0.2F, 3.0F}) {  // flat and peaked
          const Sequence sequence(positions, dim, heads, scale);
          std::vector<float> expected(sequence.query.size());
          reference_attend_blocks(sequence.work(0, positions, expected));
          const std::vector<double> wide(expected.begin(), expected.end());
          // An exponential's error is that of its score, which is a sum of D products.
          const double tolerance =
              3e-6 * (1 + static_cast<double>(scale) * std::sqrt(static_cast<double>(dim)));
          for_each_target([&] {
            ASSERT_LT(largest_difference(sequence.attend(kAttentionRows / heads), wide), tolerance)
                << "D " << dim << " heads " << heads << " positions " << positions << " scale " << scale;
          });
        }
      }
    }
  }
}

TEST(BlockAttention, TokensReadTogetherAreThoseReadAlone) {
  for (const std::int64_t dim : {8, 64}) {
    for (const std::int64_t heads : {1, 3}) {
      const Sequence sequence(277, dim, heads, 1);
      const std::vector<float> alone = sequence.attend(1);
      for (const std::int64_t tile : {2, 5, 8}) EXPECT_EQ(sequence.attend(tile), alone) << tile;
    }
  }
}

TEST(BlockAttention, LaterPositionsDoNotMatter) {
  const Sequence sequence(100, 16, 2, 1);
  const std::vector<float> before = sequence.attend(1);
  float* const last = sequence.blocks.data() + sequence.table.back() * block_floats(16);
  std::fill_n(last, block_floats(16), 1e30F);
  const std::vector<float> after = sequence.attend(1);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 96 * 2 * 16, after.begin()));
}

}  // namespace
}  // namespace routeopd::kernels::testing
