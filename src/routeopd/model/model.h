// A decoder's configuration and weights, and the Hugging Face directory they come from and go to. Training, generation
// and scoring share these tensors; what differs between them is the attention they hand to the forward (decoder.h).
//
// Shapes: V rows of the vocabulary (padding included), H hidden, F feed-forward, D head, Q = D * query heads,
// C = D * key-value heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "routeopd/formats/model_config.h"

namespace routeopd::model {

// A tensor that the architecture does not have is undefined.
struct Layer {
  at::Tensor input_norm_H;
  at::Tensor q_proj_QH, k_proj_CH, v_proj_CH, o_proj_HQ;
  at::Tensor q_bias_Q, k_bias_C, v_bias_C, o_bias_H;
  at::Tensor q_norm_D, k_norm_D;
  at::Tensor post_norm_H;
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

// Tensors with shapes and no memory (on the device kMeta).
Model shape_model(const formats::ModelConfig& config);

// Float32 weights of the right shapes with unspecified values.
Model allocate_model(const formats::ModelConfig& config);

// Weights from nothing: the embedding normal with deviation 0.04, matrices with 1 / sqrt(inputs) (residual outputs times
// 1 / sqrt(2 layers)), norms one, biases zero. Addressed randomness: a weight depends on the seed, its tensor and its place alone.
Model random_model(const formats::ModelConfig& config, std::uint64_t seed);

// An independent copy of the weights.
Model clone_model(const Model& model);

// The weights in another type, rounded to nearest.
Model rounded_model(const Model& model, at::ScalarType dtype);

// Copies the values of `from` into the tensors of `to`.
void copy_weights(const Model& from, Model& to);

// Reads config.json and the weights (model.safetensors, or shards and their index), widened to float32. Throws UserError
// with the file and the tensor that is missing, unexpected or of a wrong shape.
Model load_model(const std::filesystem::path& directory);

// What the weight files of a directory hold, without reading it.
struct StoredWeights {
  std::int64_t parameters = 0;                // a tied pair counts once
  std::int64_t bytes = 0;                     // of the tensors
  std::map<std::string, std::int64_t> types;  // parameters of each type, as the format spells it
  std::vector<std::filesystem::path> files;
};

// Throws as load_model does.
StoredWeights describe_weights(const std::filesystem::path& directory);

struct SaveOptions {
  at::ScalarType dtype = at::kFloat;  // kFloat | kBFloat16 | kHalf, rounded to nearest
  std::int64_t shard_bytes =
      50LL * 1000 * 1000 * 1000;  // larger weights are cut into several files with an index
};

// Writes a directory that `transformers` loads: config.json (its dtype as said here) and tokenizer files and templates as
// they are in `like`, the weights in safetensors. Written beside and renamed; `directory` must not exist.
void save_model(const Model& model, const std::filesystem::path& directory, const std::filesystem::path& like,
                const SaveOptions& options = {});

// The same files into a directory that is there.
void write_model_files(const Model& model, const std::filesystem::path& directory,
                       const std::filesystem::path& like, const SaveOptions& options = {});

// A safetensors file of tensors of one type, in the order given.
void save_tensors(const std::filesystem::path& path, const std::vector<Parameter>& tensors,
                  at::ScalarType dtype = at::kFloat);

// Reads such a file into tensors of those names, shapes and float32. Throws UserError where it has not exactly these.
void read_tensors(const std::filesystem::path& path, const std::vector<Parameter>& targets);

}  // namespace routeopd::model
