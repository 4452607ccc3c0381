// Keys and values of all layers in blocks of 16 positions. Who owns which block is not known here
// (engine/kv_plan.h). Memory is reserved at once and taken from the system as blocks are first written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "routeopd/formats/model_config.h"
#include "routeopd/kernels/block_attention.h"
#include "routeopd/model/weight_arena.h"

namespace routeopd::model {

class KvStorage {
 public:
  // Exact: 16 positions x layers x key-value heads x (D + D rounded up to 16) floats.
  static std::int64_t block_bytes(const formats::ModelConfig& config) {
    return config.num_hidden_layers * config.num_key_value_heads * kernels::block_floats(config.head_dim) *
           static_cast<std::int64_t>(sizeof(float));
  }

  KvStorage(const formats::ModelConfig& config, std::int64_t blocks)
      : layers_(config.num_hidden_layers),
        blocks_(blocks),
        head_floats_(kernels::block_floats(config.head_dim)),
        block_stride_(config.num_key_value_heads * head_floats_),
        memory_keeper_(
            WeightArena(layers_ * blocks_ * block_stride_).take({layers_ * blocks_ * block_stride_})),
        memory_(memory_keeper_.data_ptr<float>()) {}

  std::int64_t blocks() const { return blocks_; }

  // Head `head` of block 0 of a layer; the same head of the next block is block_stride() floats on.
  float* at(std::int64_t layer, std::int64_t head) const {
    return memory_ + layer * blocks_ * block_stride_ + head * head_floats_;
  }
  std::int64_t block_stride() const { return block_stride_; }

  void copy_block(std::int32_t from, std::int32_t to) {
    for (std::int64_t layer = 0; layer < layers_; ++layer)
      std::copy_n(at(layer, 0) + from * block_stride_, block_stride_, at(layer, 0) + to * block_stride_);
  }

 private:
  std::int64_t layers_, blocks_, head_floats_, block_stride_;
  // Zeros at first: a position never written is multiplied by a probability of 0, which NaN would survive.
  at::Tensor memory_keeper_;
  float* memory_;
};

}  // namespace routeopd::model
