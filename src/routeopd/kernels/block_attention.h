// Causal attention to keys and values that lie in blocks of 16 positions, for a few tokens of one sequence at
// a time and the query heads that share a key-value head. One token is a decoding step, many are a prompt:
// the answer for a token is the same bit for bit either way, since each query walks the same groups of
// kAttentionGroup positions, and later positions count with a probability of exactly 0.
//
// A block of one key-value head: keys [D, 16], dimension by dimension, so that the scores of 16 positions are
// one panel product; then values [16, D'], position by position, zeros past D.
//
// Shapes: T tokens, G query heads per key-value head, D head, D' = D rounded up to 16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace routeopd::kernels {

inline constexpr std::int64_t kBlockPositions = 16;
inline constexpr std::int64_t kAttentionGroup = 128;  // positions of one step of the running softmax
inline constexpr std::int64_t kAttentionRows = 24;    // queries handled at a time, at most

constexpr std::int64_t padded_head(std::int64_t head_dim) {
  return (head_dim + 15) / 16 * 16;
}

// Floats of one key-value head in a block.
constexpr std::int64_t block_floats(std::int64_t head_dim) {
  return kBlockPositions * (head_dim + padded_head(head_dim));
}

// The queries of consecutive tokens, row t at query + t * stride + g * D.
struct BlockAttention {
  const float* query = nullptr;  // rotated, and already multiplied by 1 / sqrt(D)
  std::int64_t stride = 0;
  std::int64_t tokens = 0;  // T; T * G <= kAttentionRows, or T = 1
  std::int64_t heads = 0;   // G
  std::int64_t head_dim = 0;
  std::int64_t first_position = 0;  // of token 0

  const float* blocks = nullptr;        // this layer's and head's part of block 0
  std::int64_t block_stride = 0;        // from a block to the next
  const std::int32_t* table = nullptr;  // the sequence's blocks

  float* out = nullptr;  // row t at out + t * out_stride + g * D
  std::int64_t out_stride = 0;
};

// Floats of `scratch`, which is 64-byte aligned.
std::int64_t attention_scratch(std::int64_t rows, std::int64_t head_dim);

void attend_blocks(const BlockAttention& work, float* scratch);

// Writes one token's key and value of a head into its slot (0 to 15) of a block.
void write_key_value(const float* key_D, const float* value_D, std::int64_t head_dim, std::int64_t slot,
                     float* block);

// The same in double precision, query by query.
void reference_attend_blocks(const BlockAttention& work);

}  // namespace routeopd::kernels
