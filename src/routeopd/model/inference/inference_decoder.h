// The decoder for generation and scoring: the forward of decoder.h without gradients, over runs of tokens and
// blocks of keys and values, with weights laid out for it. Batch-invariant: a token's hidden state is the
// same bit for bit whatever else is in the batch, and whether its sequence was read at once, in parts, or
// token by token.
//
// Shapes: T tokens, W wanted, H hidden, Q queries, C keys, F feed-forward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "routeopd/model/inference/kv_storage.h"
#include "routeopd/model/inference/packed_matrix.h"
#include "routeopd/model/inference/token_batch.h"
#include "routeopd/model/model.h"

namespace routeopd::model {

class InferenceDecoder {
 public:
  // A copy of the weights except for the embedding, which is read where it is. The model must live on the CPU
  // in float32.
  InferenceDecoder(const Model& model, WeightStorage storage);

  // Takes over new values of the weights.
  void update(const Model& model);

  // Reads the batch: writes keys and values of its tokens and returns the hidden states after the final norm
  // of those that are wanted, [W, H].
  at::Tensor forward(const TokenBatch& batch, KvStorage& storage);

 private:
  struct AttentionItem;
  struct Rows;
  struct Step;
  std::vector<AttentionItem> attention_items(const TokenBatch& batch) const;
  void copy_small_weights(const Model& model);
  void run(const Step& step);
  void write_keys(const Step& step, std::size_t layer, std::int64_t begin, std::int64_t end);
  void attend(const Step& step, std::size_t layer, float* scratch);
  void extend_rotation(std::int64_t positions);

  formats::ModelConfig config_;
  at::Tensor embed_VH_;
  PackedMatrices matrices_;  // for each layer: query-key-value, output, gate and up, down
  // What each norm multiplies by (the architecture's offset added to its weight), undefined where there is
  // none. For each layer: before and after attention, before and after the feed-forward, queries, keys; at
  // the end the final one.
  std::vector<at::Tensor> norms_;
  at::Tensor cos_PE_, sin_PE_;  // rotary positions met so far
  std::vector<float> activations_;
};

}  // namespace routeopd::model
