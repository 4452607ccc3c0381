//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/model.h"

#include <c10/core/GradMode.h>

#include <array>
#include <cmath>
#include <numbers>

#include "routeopd/base/error.h"
#include "routeopd/base/philox.h"
#include "routeopd/model/weight_arena.h"

namespace routeopd::model {
namespace {

// Two independent normal deviates for each pair of elements (Box-Muller on addressed uniforms).
void fill_normal(at::Tensor& tensor, std::uint64_t seed, std::uint32_t number, double sigma) {
  float* const values = tensor.data_ptr<float>();
  const std::int64_t count = tensor.numel();
  for (std::int64_t i = 0; i < count; i += 2) {
    const StateAddress at{.step = number, .position = static_cast<std::uint32_t>(i / 2)};
    const PhiloxBlock words = addressed_words(seed, Purpose::kInitialWeights, at, 0);
    const double radius = sigma * std::sqrt(-2 * std::log(1.0 - static_cast<double>(unit_uniform(words[0]))));
    const double angle = 2 * std::numbers::pi * static_cast<double>(unit_uniform(words[1]));
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < count) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

// The tensors of a layer under their names in Hugging Face's files.
struct LayerRow {
  const char* name;
  at::Tensor Layer::* tensor;
};
constexpr std::array<LayerRow, 18> kLayerRows = {{{"input_layernorm.weight", &Layer::input_norm_H},
                                                  {"self_attn.q_proj.weight", &Layer::q_proj_QH},
                                                  {"self_attn.q_proj.bias", &Layer::q_bias_Q},
                                                  {"self_attn.k_proj.weight", &Layer::k_proj_CH},
                                                  {"self_attn.k_proj.bias", &Layer::k_bias_C},
                                                  {"self_attn.v_proj.weight", &Layer::v_proj_CH},
                                                  {"self_attn.v_proj.bias", &Layer::v_bias_C},
                                                  {"self_attn.o_proj.weight", &Layer::o_proj_HQ},
                                                  {"self_attn.o_proj.bias", &Layer::o_bias_H},
                                                  {"self_attn.q_norm.weight", &Layer::q_norm_D},
                                                  {"self_attn.k_norm.weight", &Layer::k_norm_D},
                                                  {"post_attention_layernorm.weight", &Layer::post_norm_H},
                                                  {"mlp.gate_proj.weight", &Layer::gate_FH},
                                                  {"mlp.gate_proj.bias", &Layer::gate_bias_F},
                                                  {"mlp.up_proj.weight", &Layer::up_FH},
                                                  {"mlp.up_proj.bias", &Layer::up_bias_F},
                                                  {"mlp.down_proj.weight", &Layer::down_HF},
                                                  {"mlp.down_proj.bias", &Layer::down_bias_H}}};

bool is_table(const std::string& name) {
  return name.ends_with("embed_tokens.weight") || name == "lm_head.weight";
}

bool is_residual_output(const std::string& name) {
  return name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
}

}  // namespace

std::vector<Parameter> parameters(const Model& model) {
  std::vector<Parameter> all;
  all.push_back({"model.embed_tokens.weight", model.embed_VH});
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    for (const LayerRow& row : kLayerRows) {
      if ((layer.*row.tensor).defined())
        all.push_back({fmt::format("model.layers.{}.{}", i, row.name), layer.*row.tensor});
    }
  }
  all.push_back({"model.norm.weight", model.norm_H});
  if (!model.config.tie_word_embeddings) all.push_back({"lm_head.weight", model.head_VH});
  return all;
}

std::vector<at::Tensor> tensors_of(const Layer& layer) {
  std::vector<at::Tensor> all;
  for (const LayerRow& row : kLayerRows) {
    if ((layer.*row.tensor).defined()) all.push_back(layer.*row.tensor);
  }
  return all;
}

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters(*this)) count += parameter.tensor.numel();
  return count;
}

namespace {

// Every tensor by take(shape).
template <class Take>
Model make_model(const formats::ModelConfig& config, const Take& take) {
  const std::int64_t h = config.hidden_size, f = config.intermediate_size, d = config.head_dim;
  const std::int64_t q = config.num_attention_heads * d, c = config.num_key_value_heads * d;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) { return take({rows, columns}); };
  const auto vector = [&](std::int64_t size) { return take({size}); };
  const auto vector_if = [&](bool wanted, std::int64_t size) { return wanted ? vector(size) : at::Tensor(); };
  Model model;
  model.config = config;
  model.embed_VH = matrix(config.vocab_size, h);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    Layer layer;
    layer.input_norm_H = vector(h);
    layer.q_proj_QH = matrix(q, h);
    layer.k_proj_CH = matrix(c, h);
    layer.v_proj_CH = matrix(c, h);
    layer.o_proj_HQ = matrix(h, q);
    layer.q_bias_Q = vector_if(config.qkv_bias, q);
    layer.k_bias_C = vector_if(config.qkv_bias, c);
    layer.v_bias_C = vector_if(config.qkv_bias, c);
    layer.o_bias_H = vector_if(config.output_bias, h);
    layer.q_norm_D = vector_if(config.qk_norm(), d);
    layer.k_norm_D = vector_if(config.qk_norm(), d);
    layer.post_norm_H = vector(h);
    layer.gate_FH = matrix(f, h);
    layer.up_FH = matrix(f, h);
    layer.down_HF = matrix(h, f);
    layer.gate_bias_F = vector_if(config.mlp_bias, f);
    layer.up_bias_F = vector_if(config.mlp_bias, f);
    layer.down_bias_H = vector_if(config.mlp_bias, h);
    model.layers.push_back(std::move(layer));
  }
  model.norm_H = vector(h);
  model.head_VH = config.tie_word_embeddings ? model.embed_VH : matrix(config.vocab_size, h);
  return model;
}

}  // namespace

Model shape_model(const formats::ModelConfig& config) {
  return make_model(config, [](at::IntArrayRef shape) {
    return at::empty(shape, at::TensorOptions(at::kFloat).device(at::kMeta));
  });
}

Model allocate_model(const formats::ModelConfig& config) {
  std::int64_t floats = 0;
  for (const Parameter& parameter : parameters(shape_model(config)))
    floats += WeightArena::floats_of(parameter.tensor.numel());
  WeightArena arena(floats);
  return make_model(config, [&](at::IntArrayRef shape) { return arena.take(shape); });
}

Model random_model(const formats::ModelConfig& config, std::uint64_t seed) {
  const c10::NoGradGuard no_grad;
  Model model = allocate_model(config);
  const double residual = 1 / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
  std::uint32_t number = 0;
  for (Parameter& parameter : parameters(model)) {
    at::Tensor& tensor = parameter.tensor;
    if (tensor.dim() == 1) {
      tensor.fill_(parameter.name.ends_with(".bias") ? 0 : 1);
    } else {
      const double fan_in = 1 / std::sqrt(static_cast<double>(tensor.size(1)));
      const double sigma = is_table(parameter.name)             ? 0.04
                           : is_residual_output(parameter.name) ? fan_in * residual
                                                                : fan_in;
      fill_normal(tensor, seed, number, sigma);
    }
    ++number;
  }
  return model;
}

Model clone_model(const Model& model) {
  Model copy = allocate_model(model.config);
  copy_weights(model, copy);
  return copy;
}

Model rounded_model(const Model& model, at::ScalarType dtype) {
  Model rounded = make_model(model.config, [&](at::IntArrayRef shape) { return at::empty(shape, dtype); });
  copy_weights(model, rounded);
  return rounded;
}

void copy_weights(const Model& from, Model& to) {
  const c10::NoGradGuard no_grad;
  const std::vector<Parameter> source = parameters(from);
  std::vector<Parameter> target = parameters(to);
  ROUTEOPD_INVARIANT(source.size() == target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i].tensor.copy_(source[i].tensor);
}

}  // namespace routeopd::model
