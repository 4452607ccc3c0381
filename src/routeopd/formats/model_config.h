// config.json of a Hugging Face model directory, as the decoder needs it. What is not supported is refused by
// name, never ignored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/formats/architecture.h"
#include "routeopd/formats/rope_parameters.h"

namespace routeopd::formats {

struct ModelConfig {
  std::string model_type = "qwen3";  // of one of architectures()
  std::string dtype;                 // of the weights, as the file says; empty where it does not
  std::int64_t vocab_size = 0;       // rows of the embedding, padding included
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  RopeParameters rope;
  bool attention_bias = false;  // what these two mean to a projection, the architecture says: has()
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  std::vector<std::int32_t> eos_token_ids;  // of config.json; generation_config.json's, where it has any, win

  // Aborts for a model_type that no reader of a file lets through.
  const ArchitectureSpec& architecture() const;

  // Whether a projection of which the architecture says `bias` has one.
  bool has(Bias bias) const;

  std::int64_t query_size() const { return num_attention_heads * head_dim; }
  std::int64_t key_size() const { return num_key_value_heads * head_dim; }

  // What rows of the embedding are multiplied by.
  double embedding_scale() const;
};

// The configuration of a config.json. Throws UserError with the key that is wrong or not supported.
ModelConfig model_config_of(const Json& file);

// Reads DIR/config.json and, where it is there, DIR/generation_config.json.
ModelConfig read_model_config(const std::filesystem::path& directory);

// The configuration in the words of transformers, for a model made from nothing.
Json json_of(const ModelConfig& config);

}  // namespace routeopd::formats
