// Attention over blocks against double precision, and its independence of how many tokens are read together.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/block_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <ATen/ATen.h>

namespace routeopd::model {
namespace {

// A sequence of keys and values in blocks that lie in another order than their positions.
struct Sequence {
  std::int64_t positions, head_dim, heads;
  std::vector<std::int32_t> table;
  at::Tensor blocks, query;  // query: [positions, heads, D]

  Sequence(std::int64_t count, std::int64_t dim, std::int64_t group, float scale)
      : positions(count), head_dim(dim), heads(group) {
    std::mt19937 random(static_cast<std::uint32_t>(count * 1000 + dim));
    std::normal_distribution<float> normal;
    const std::int64_t used = (count + 15) / 16;
    for (std::int64_t i = 0; i < used; ++i) table.push_back(static_cast<std::int32_t>(i));
    std::shuffle(table.begin(), table.end(), random);
    blocks = at::zeros({used, kernels::block_floats(dim)}, at::kFloat);
    query = at::empty({count, group, dim}, at::kFloat);
    for (std::int64_t i = 0; i < query.numel(); ++i) query.data_ptr<float>()[i] = scale * normal(random);
    std::vector<float> key(static_cast<std::size_t>(dim)), value(key.size());
    for (std::int64_t p = 0; p < count; ++p) {
      for (float& x : key) x = normal(random);
      for (float& x : value) x = normal(random);
      kernels::write_key_value(
          key.data(), value.data(), dim, p % 16,
          blocks.data_ptr<float>() + table[static_cast<std::size_t>(p / 16)] * kernels::block_floats(dim));
    }
  }

  kernels::BlockAttention work(std::int64_t first, std::int64_t tokens, at::Tensor& out) const {
    return {.query = query.const_data_ptr<float>() + first * heads * head_dim,
            .stride = heads * head_dim,
            .tokens = tokens,
            .heads = heads,
            .head_dim = head_dim,
            .first_position = first,
            .blocks = blocks.const_data_ptr<float>(),
            .block_stride = kernels::block_floats(head_dim),
            .table = table.data(),
            .out = out.data_ptr<float>() + first * heads * head_dim,
            .out_stride = heads * head_dim};
  }

  // All tokens, `tile` at a time.
  at::Tensor attend(std::int64_t tile) const {
    at::Tensor out = at::full({positions, heads, head_dim}, -1, at::kFloat);
    const at::Tensor scratch = at::empty(
        {kernels::attention_scratch(std::max(kernels::kAttentionRows, heads), head_dim)}, at::kFloat);
    for (std::int64_t first = 0; first < positions; first += tile)
      kernels::attend_blocks(work(first, std::min(tile, positions - first), out), scratch.data_ptr<float>());
    return out;
  }
};

TEST(BlockAttention, EqualsDoublePrecision) {
  for (const std::int64_t dim : {4, 16, 20, 64, 128}) {
    for (const std::int64_t heads : {1, 3, 7}) {
      for (const std::int64_t positions : {1, 16, 17, 129, 300}) {
        for (const float scale : {0.2F, 3.0F}) {  // flat and peaked
          const Sequence sequence(positions, dim, heads, scale);
          at::Tensor expected = at::empty({positions, heads, dim}, at::kFloat);
          kernels::reference_attend_blocks(sequence.work(0, positions, expected));
          const at::Tensor got = sequence.attend(kernels::kAttentionRows / heads);
          // An exponential's error is that of its score, which is a sum of D products.
          const double tolerance =
              3e-6 * (1 + static_cast<double>(scale) * std::sqrt(static_cast<double>(dim)));
          ASSERT_LT((got - expected).abs().max().item<double>(), tolerance)
              << "D " << dim << " heads " << heads << " positions " << positions << " scale " << scale;
        }
      }
    }
  }
}

TEST(BlockAttention, TokensReadTogetherAreThoseReadAlone) {
  for (const std::int64_t dim : {8, 64}) {
    for (const std::int64_t heads : {1, 3}) {
      const Sequence sequence(277, dim, heads, 1);
      const at::Tensor alone = sequence.attend(1);
      for (const std::int64_t tile : {2, 5, 8}) EXPECT_TRUE(at::equal(sequence.attend(tile), alone)) << tile;
    }
  }
}

TEST(BlockAttention, PositionsBehindDoNotMatter) {
  const Sequence sequence(100, 16, 2, 1);
  at::Tensor before = sequence.attend(1);
  float* const last = sequence.blocks.data_ptr<float>() + sequence.table.back() * kernels::block_floats(16);
  std::fill_n(last, kernels::block_floats(16), 1e30F);
  EXPECT_TRUE(at::equal(sequence.attend(1).slice(0, 0, 96), before.slice(0, 0, 96)));
}

}  // namespace
}  // namespace routeopd::model
