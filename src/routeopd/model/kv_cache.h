// Keys and values of the sequences that are being written, one row a sequence, its own positions from 0. Room for
// positions grows as they come.
//
// Shapes: B sequences, N query heads, M key-value heads, D head, L positions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "routeopd/model/model.h"
#include "routeopd/model/packed_batch.h"

namespace routeopd::model {

class KvCache {
 public:
  KvCache(const formats::ModelConfig& config, std::int64_t sequences);

  // Reads the prompts (sequence b of the batch is row b) and returns the hidden state at the end of each: [B, H].
  at::Tensor prefill(const Model& model, const PackedBatch& prompts);

  // One token for each sequence: [B] ids (int64) -> [B, H].
  at::Tensor step(const Model& model, const at::Tensor& ids_B);

  // Keeps these rows, in this order; a row may be named several times.
  void select(const at::Tensor& rows);

  std::int64_t sequences() const { return lengths_B_.numel(); }

 private:
  void reserve(std::int64_t positions);

  std::vector<at::Tensor> keys_BMLD_, values_BMLD_;  // a layer each, capacity positions
  at::Tensor lengths_B_;                             // int64: positions in use
  std::int64_t longest_ = 0;
  std::int64_t capacity_ = 0;
};

}  // namespace routeopd::model
