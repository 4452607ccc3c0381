// The streaming head: what scoring needs of softmax(hidden W^T) at each token, in one pass over tiles of the
// vocabulary: the k largest logits with their ids, the log-sum-exp, the entropy where it is wanted, and the
// logits at ids given by the caller (the other model's top-k). [T, V] is never held; see
// kernels/vocabulary_tiles.h. Decoding, which samples from a few rows at a time, asks for the same with the
// rows kept.
//
// Shapes: T tokens, H hidden size, V rows of the weight (padding included), R <= V real ids, K = min(k, R) of
// the top-k, G ids gathered per token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "routeopd/kernels/topk_state.h"
#include "routeopd/model/heads/head.h"
#include "routeopd/model/inference/packed_matrix.h"

namespace routeopd::model {

// Logits are computed, accumulated and returned in float32, whatever the type of the weight; in float64 when
// the weight or the hidden states are. A token whose logsumexp is not finite had a NaN or +inf logit (or -inf
// ones only): nothing else of it is to be used, though its ids stay in [-1, R).
struct HeadScores {
  at::Tensor top_ids_TK;     // int32; logits descending, equal logits by ascending id
  at::Tensor top_logits_TK;  // the logits of those ids
  at::Tensor logsumexp_T;    // over the R real ids
  at::Tensor entropy_T;      // nats, over the R real ids; undefined unless asked for
  at::Tensor gathered_TG;  // the logits at gather_ids_TG, NaN where that is -1; [T, 0] when no ids were given
};

// The logits of a few rows, for sampling: beside them, the sum of exponentials over each tile of ids.
struct HeldLogits {
  HeadScores scores;  // no gathers
  at::Tensor logits_TR;
  std::vector<kernels::LogSum> sums_ST;  // [tile, row]
  std::int64_t tile_width = 0;
};

class StreamingHead {
 public:
  // Rows [0, real_ids) of weight_VH take part, the padding after them never does. On the CPU, a float32 or
  // bfloat16 weight is copied into packed panels, once: build the head anew after an update of the weight.
  // The ATen path (kAten; any device and floating type) keeps a reference to weight_VH instead.
  explicit StreamingHead(const at::Tensor& weight_VH, std::int64_t real_ids, Backend backend = Backend::kAuto,
                         WeightStorage storage = WeightStorage::kExact);

  // Takes over new values of a weight of the same shape.
  void update(const at::Tensor& weight_VH);

  // hidden_TH: a floating type, on the weight's device. gather_ids_TG: int32 or int64 in [-1, R), -1 pads;
  // may be undefined. Bitwise the same for any number of threads. UserError on wrong shapes, types, ids, or k
  // <= 0.
  HeadScores score(const at::Tensor& hidden_TH, std::int64_t k, const at::Tensor& gather_ids_TG = {},
                   bool entropy = false) const;

  // Whole rows of logits; hidden_TH is contiguous float32. kHighway alone. The memory of `held` is used
  // again.
  void hold(const at::Tensor& hidden_TH, std::int64_t k, HeldLogits& held, bool entropy = false) const;

  std::int64_t real_ids() const { return real_ids_; }
  std::int64_t hidden_size() const { return weight_VH_.size(1); }

  // The implementation that runs: kHighway or kAten.
  Backend backend() const { return backend_; }

  // The packed weight; kHighway alone.
  const kernels::Product& product() const { return (*packed_)[0]; }

 private:
  HeadScores score_with_aten(const at::Tensor& hidden_TH, std::int64_t k, const at::Tensor& gather_ids_TG,
                             bool entropy) const;

  at::Tensor weight_VH_;
  std::int64_t real_ids_;
  Backend backend_;
  std::unique_ptr<PackedMatrices> packed_;  // kHighway
};

}  // namespace routeopd::model
