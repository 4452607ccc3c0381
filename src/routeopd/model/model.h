// A decoder's configuration and weights, shared by training, generation and scoring. Their files are in
// model_files.h, what is computed with them in decoder.h and inference/.
//
// Shapes: V rows of the vocabulary (padding included), H hidden, F feed-forward, D head, Q = D * query heads,
// C = D * key-value heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/formats/model_config.h"

namespace routeopd::model {

// A tensor that the architecture does not have is undefined. Which weight of the architecture's table each
// one is (formats/weight_table.h), model.cpp says.
struct Layer {
  at::Tensor norm_before_attention_H, norm_after_attention_H;
  at::Tensor q_proj_QH, k_proj_CH, v_proj_CH, o_proj_HQ;
  at::Tensor q_bias_Q, k_bias_C, v_bias_C, o_bias_H;
  at::Tensor q_norm, k_norm;  // [D] each, or [Q] and [C]
  at::Tensor norm_before_mlp_H, norm_after_mlp_H;
  at::Tensor gate_FH, up_FH, down_HF;
  at::Tensor gate_bias_F, up_bias_F, down_bias_H;
};

// Those that are defined.
std::vector<at::Tensor> tensors_of(const Layer& layer);

struct Model {
  formats::ModelConfig config;
  at::Tensor embed_VH;
  std::vector<Layer> layers;
  at::Tensor norm_H;
  at::Tensor head_VH;  // the same tensor as embed_VH when the two are tied

  std::int64_t parameter_count() const;
  at::Device device() const { return norm_H.device(); }  // of every weight
};

// A weight under its name in Hugging Face's files.
struct Parameter {
  std::string name;
  at::Tensor tensor;
};

// Every weight once: a tied head is not listed.
std::vector<Parameter> parameters(const Model& model);

// Every weight that the learner updates; all of them today.
inline std::vector<Parameter> trainable(const Model& model) {
  return parameters(model);
}

// Float32 weights of the right shapes with unspecified values.
Model allocate_model(const formats::ModelConfig& config);

// Weights from nothing: the embedding normal with deviation 0.04, matrices with 1 / sqrt(inputs) (residual
// outputs times 1 / sqrt(2 layers)), biases zero, and norms that multiply by one. Addressed randomness: a
// weight depends on the seed, its tensor and its place alone.
Model random_model(const formats::ModelConfig& config, std::uint64_t seed);

// An independent copy of the weights.
Model clone_model(const Model& model);

// The weights in another type, rounded to nearest, on the same device.
Model rounded_model(const Model& model, at::ScalarType dtype);

// The weights on a device: the model itself where they are there already, else a copy.
Model model_on(const Model& model, at::Device device);

// Copies the values of `from` into the tensors of `to`, whatever type and device each has.
void copy_weights(const Model& from, Model& to);

}  // namespace routeopd::model
