// What sets one decoder architecture apart from another, as plain data. All of it is read from here: by the
// reader of config.json (model_config.h), the table of weights (weight_table.h), both forwards
// (model/decoder.cpp with gradients, model/inference/ without) and the memory plan
// (model::activation_floats).
//
// A new architecture that is made of these parts is one file in architectures/ and one line in
// architecture.cpp. One with a part of a new kind (a soft cap, a sliding window) also needs a field here and
// its computation in both forwards.
//
// What all of them share: L blocks
//   x += after(attention(before(x)));  x += after(feed_forward(before(x)))
// whose before and after are RMS norms or nothing, with rotary positions, grouped key-value heads and a
// feed-forward down(activation(gate(x)) * up(x)); then a final RMS norm and the head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace routeopd::formats {

// Of the gate in the feed-forward.
enum class Activation {
  kSilu,      // x / (1 + exp(-x))
  kGeluTanh,  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
};

// RMS norms of queries and keys, before they are rotated.
enum class QueryKeyNorm {
  kNone,
  kEachHead,         // over each head, one weight [head_dim] for all of them
  kWholeProjection,  // over all heads of a token at once, weight [heads * head_dim]
};

// Whether a projection has a bias.
enum class Bias {
  kNever,
  kAlways,
  kAttentionBias,  // where config.json says "attention_bias": true
  kMlpBias,        // where it says "mlp_bias": true
};

// How config.json says which layers attend to a sliding window only. Such layers are refused.
enum class WindowKeys {
  kNone,       // the architecture has no windows
  kEachLayer,  // layer_types, else use_sliding_window with sliding_window and max_window_layers
  kAllLayers,  // sliding_window
};

// What transformers fills in for keys that a config.json does not have.
struct ConfigDefaults {
  std::int64_t num_key_value_heads = 0;  // 0: as many as query heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  bool tie_word_embeddings = false;
  std::optional<std::int32_t> eos_token_id = std::nullopt;
};

// Names in Hugging Face's files, without ".weight" or ".bias".
struct TensorNames {
  std::string embedding = "model.embed_tokens";
  std::string layers = "model.layers";
  std::string final_norm = "model.norm";
  std::string head = "lm_head";
  // Of layer N, after "model.layers.N.". A norm around a branch is there when it has a name.
  std::string norm_before_attention = "input_layernorm";
  std::string query = "self_attn.q_proj";
  std::string key = "self_attn.k_proj";
  std::string value = "self_attn.v_proj";
  std::string output = "self_attn.o_proj";
  std::string query_norm = "self_attn.q_norm";
  std::string key_norm = "self_attn.k_norm";
  std::string norm_after_attention = "";
  std::string norm_before_mlp = "post_attention_layernorm";
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";
  std::string down = "mlp.down_proj";
  std::string norm_after_mlp = "";
};

// As they stand here, the fields describe Llama without biases.
struct ArchitectureSpec {
  std::string model_type;  // in config.json
  std::string class_name;  // in transformers
  ConfigDefaults defaults = {};
  WindowKeys windows = WindowKeys::kNone;

  TensorNames names = {};
  Bias qkv_bias = Bias::kNever;
  Bias output_bias = Bias::kNever;
  Bias mlp_bias = Bias::kNever;

  // Whether rows of the embedding enter the first block times sqrt(hidden_size).
  bool embedding_times_sqrt_hidden = false;
  double norm_offset = 0;  // every norm is x / rms(x) * (norm_offset + weight)
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  Activation activation = Activation::kSilu;
  std::vector<std::string> activation_names = {"silu", "swish"};  // in config.json; the first one is written
};

// All of them, in the order in which messages list them.
const std::vector<ArchitectureSpec>& architectures();

// The one of that model_type; null where there is none.
const ArchitectureSpec* find_architecture(std::string_view model_type);

}  // namespace routeopd::formats
