// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/model.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/philox.h"
#include "routeopd/formats/weight_table.h"
#include "routeopd/model/weight_arena.h"

namespace routeopd::model {
namespace {

using formats::Weight;
using formats::WeightRow;

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

// The tensors of a layer by what they are in the table of weights.
struct LayerTensor {
  Weight weight;
  at::Tensor Layer::* tensor;
};
constexpr std::array<LayerTensor, 20> kLayerTensors = {
    {{Weight::kNormBeforeAttention, &Layer::norm_before_attention_H},
     {Weight::kQuery, &Layer::q_proj_QH},
     {Weight::kQueryBias, &Layer::q_bias_Q},
     {Weight::kKey, &Layer::k_proj_CH},
     {Weight::kKeyBias, &Layer::k_bias_C},
     {Weight::kValue, &Layer::v_proj_CH},
     {Weight::kValueBias, &Layer::v_bias_C},
     {Weight::kOutput, &Layer::o_proj_HQ},
     {Weight::kOutputBias, &Layer::o_bias_H},
     {Weight::kQueryNorm, &Layer::q_norm},
     {Weight::kKeyNorm, &Layer::k_norm},
     {Weight::kNormAfterAttention, &Layer::norm_after_attention_H},
     {Weight::kNormBeforeMlp, &Layer::norm_before_mlp_H},
     {Weight::kGate, &Layer::gate_FH},
     {Weight::kGateBias, &Layer::gate_bias_F},
     {Weight::kUp, &Layer::up_FH},
     {Weight::kUpBias, &Layer::up_bias_F},
     {Weight::kDown, &Layer::down_HF},
     {Weight::kDownBias, &Layer::down_bias_H},
     {Weight::kNormAfterMlp, &Layer::norm_after_mlp_H}}};

// The tensor of `model` that a row of its table is about; Model may be const.
template <class AnyModel>
auto& tensor_at(AnyModel& model, const WeightRow& row) {
  if (row.weight == Weight::kEmbedding) return model.embed_VH;
  if (row.weight == Weight::kFinalNorm) return model.norm_H;
  if (row.weight == Weight::kHead) return model.head_VH;
  const auto found = std::find_if(kLayerTensors.begin(), kLayerTensors.end(),
                                  [&](const LayerTensor& entry) { return entry.weight == row.weight; });
  ROUTEOPD_INVARIANT(found != kLayerTensors.end());
  return model.layers[static_cast<std::size_t>(row.layer)].*(found->tensor);
}

// Every tensor by take(shape), in the order of the table.
template <class Take>
Model make_model(const formats::ModelConfig& config, const Take& take) {
  Model model;
  model.config = config;
  model.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (const WeightRow& row : formats::weight_table(config)) tensor_at(model, row) = take(row.shape);
  if (config.tie_word_embeddings) model.head_VH = model.embed_VH;
  return model;
}

bool is_norm(Weight weight) {
  switch (weight) {
    case Weight::kNormBeforeAttention:
    case Weight::kQueryNorm:
    case Weight::kKeyNorm:
    case Weight::kNormAfterAttention:
    case Weight::kNormBeforeMlp:
    case Weight::kNormAfterMlp:
    case Weight::kFinalNorm:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<Parameter> parameters(const Model& model) {
  std::vector<Parameter> all;
  for (WeightRow& row : formats::weight_table(model.config)) {
    const at::Tensor& tensor = tensor_at(model, row);
    all.push_back({std::move(row.name), tensor});
  }
  return all;
}

std::vector<at::Tensor> tensors_of(const Layer& layer) {
  std::vector<at::Tensor> all;
  for (const LayerTensor& entry : kLayerTensors) {
    if ((layer.*entry.tensor).defined()) all.push_back(layer.*entry.tensor);
  }
  return all;
}

std::int64_t Model::parameter_count() const {
  return formats::parameter_count(config);
}

Model allocate_model(const formats::ModelConfig& config) {
  std::int64_t floats = 0;
  for (const WeightRow& row : formats::weight_table(config)) floats += WeightArena::floats_of(row.elements());
  WeightArena arena(floats);
  return make_model(config, [&](at::IntArrayRef shape) { return arena.take(shape); });
}

Model random_model(const formats::ModelConfig& config, std::uint64_t seed) {
  const c10::NoGradGuard no_grad;
  Model model = allocate_model(config);
  const double residual = 1 / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
  std::uint32_t number = 0;
  for (const WeightRow& row : formats::weight_table(config)) {
    at::Tensor& tensor = tensor_at(model, row);
    if (row.shape.size() == 1) {
      tensor.fill_(is_norm(row.weight) ? 1 - config.architecture().norm_offset : 0);
    } else {
      const bool table = row.weight == Weight::kEmbedding || row.weight == Weight::kHead;
      const bool residual_output = row.weight == Weight::kOutput || row.weight == Weight::kDown;
      const double fan_in = 1 / std::sqrt(static_cast<double>(tensor.size(1)));
      fill_normal(tensor, seed, number, table ? 0.04 : residual_output ? fan_in * residual : fan_in);
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
  const at::TensorOptions options = at::device(model.device()).dtype(dtype);
  Model rounded = make_model(model.config, [&](at::IntArrayRef shape) { return at::empty(shape, options); });
  copy_weights(model, rounded);
  return rounded;
}

Model model_on(const Model& model, at::Device device) {
  if (model.device() == device) return model;
  const at::TensorOptions options = model.norm_H.options().device(device);
  Model there = make_model(model.config, [&](at::IntArrayRef shape) { return at::empty(shape, options); });
  copy_weights(model, there);
  return there;
}

void copy_weights(const Model& from, Model& to) {
  const c10::NoGradGuard no_grad;
  const std::vector<Parameter> source = parameters(from);
  std::vector<Parameter> target = parameters(to);
  ROUTEOPD_INVARIANT(source.size() == target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i].tensor.copy_(source[i].tensor);
}

}  // namespace routeopd::model
