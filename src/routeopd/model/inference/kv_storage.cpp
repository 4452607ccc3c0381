//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/inference/kv_storage.h"

#include <algorithm>

#include "routeopd/kernels/block_attention.h"

namespace routeopd::model {

std::int64_t KvStorage::block_bytes(const formats::ModelConfig& config) {
  return config.num_hidden_layers * config.num_key_value_heads * kernels::block_floats(config.head_dim) *
         static_cast<std::int64_t>(sizeof(float));
}

KvStorage::KvStorage(const formats::ModelConfig& config, std::int64_t blocks)
    : layers_(config.num_hidden_layers),
      blocks_(blocks),
      head_floats_(kernels::block_floats(config.head_dim)),
      block_stride_(config.num_key_value_heads * head_floats_),
      memory_keeper_(
          WeightArena(layers_ * blocks_ * block_stride_).take({layers_ * blocks_ * block_stride_})),
      memory_(memory_keeper_.data_ptr<float>()) {}

void KvStorage::copy_block(std::int32_t from, std::int32_t to) {
  for (std::int64_t layer = 0; layer < layers_; ++layer)
    std::copy_n(at(layer, 0) + from * block_stride_, block_stride_, at(layer, 0) + to * block_stride_);
}

}  // namespace routeopd::model
