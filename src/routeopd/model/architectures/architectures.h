// What sets one architecture apart from another: how a layer's input becomes queries, keys and values. All else is in
// decoder.cpp; a new architecture is a file here, a row in formats/model_config.cpp, and a line in decoder.cpp.
//
// Shapes: T tokens, H hidden, N query heads, M key-value heads, D head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include "routeopd/model/model.h"

namespace routeopd::model {

// Before they are rotated.
struct AttentionInputs {
  at::Tensor q_TND, k_TMD, v_TMD;
};

AttentionInputs llama_attention_inputs(const Layer& layer, const at::Tensor& input_TH,
                                       const formats::ModelConfig& config);
AttentionInputs qwen2_attention_inputs(const Layer& layer, const at::Tensor& input_TH,
                                       const formats::ModelConfig& config);
AttentionInputs qwen3_attention_inputs(const Layer& layer, const at::Tensor& input_TH,
                                       const formats::ModelConfig& config);

// x W^T, plus the bias where there is one.
inline at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

// x / sqrt(mean(x^2) + eps) * weight, over the last dimension.
inline at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at::rms_norm(x, {weight.size(0)}, weight, eps);
}

// [T, N * D] as [T, N, D].
inline at::Tensor heads(const at::Tensor& x_TC, const formats::ModelConfig& config) {
  return x_TC.view({x_TC.size(0), -1, config.head_dim});
}

}  // namespace routeopd::model
