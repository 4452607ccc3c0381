//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/decoder.h"

#include <numbers>

#include "routeopd/base/error.h"
#include "routeopd/model/architectures/architectures.h"
#include "routeopd/model/recompute.h"

namespace routeopd::model {
namespace {

// In float32, as transformers computes them.
at::Tensor frequencies_E(const formats::ModelConfig& config) {
  const formats::RopeParameters& rope = config.rope;
  const at::Tensor plane_E =
      at::arange(0, config.head_dim, 2, at::kFloat) / static_cast<double>(config.head_dim);
  const at::Tensor plain_E = at::pow(rope.theta, plane_E).reciprocal();
  if (rope.type == "default") return plain_E;
  const at::Tensor slow_E = plain_E / rope.factor;
  if (rope.type == "linear") return slow_E;
  ROUTEOPD_INVARIANT(rope.type == "llama3");
  const at::Tensor wavelength_E = 2 * std::numbers::pi / plain_E;
  const at::Tensor share_E = (rope.original_positions / wavelength_E - rope.low_freq_factor) /
                             (rope.high_freq_factor - rope.low_freq_factor);
  const at::Tensor mixed_E = (1 - share_E) * slow_E + share_E * plain_E;
  return at::where(
      wavelength_E > rope.original_positions / rope.low_freq_factor, slow_E,
      at::where(wavelength_E < rope.original_positions / rope.high_freq_factor, plain_E, mixed_E));
}

// The first half of a head pairs with the second: (x, y) -> (x cos - y sin, y cos + x sin).
at::Tensor rotate(const at::Tensor& x_TND, const Rotation& rotation) {
  const auto halves = x_TND.chunk(2, -1);
  return at::cat({halves[0] * rotation.cos_T1E - halves[1] * rotation.sin_T1E,
                  halves[1] * rotation.cos_T1E + halves[0] * rotation.sin_T1E},
                 -1);
}

using AttentionInputsOf = AttentionInputs (*)(const Layer&, const at::Tensor&, const formats::ModelConfig&);

AttentionInputsOf attention_inputs_of(const std::string& model_type) {
  if (model_type == "qwen2") return qwen2_attention_inputs;
  if (model_type == "qwen3") return qwen3_attention_inputs;
  ROUTEOPD_INVARIANT(model_type == "llama");
  return llama_attention_inputs;
}

}  // namespace

Rotation rotation_of(const formats::ModelConfig& config, const at::Tensor& positions_T) {
  const at::Tensor angle_TE = positions_T.to(at::kFloat).unsqueeze(1) * frequencies_E(config).unsqueeze(0);
  return {angle_TE.cos().unsqueeze(1), angle_TE.sin().unsqueeze(1)};
}

at::Tensor decoder_hidden(const Model& model, const at::Tensor& embedded_TH, const at::Tensor& positions_T,
                          const Attend& attend, Activations activations) {
  const formats::ModelConfig& config = model.config;
  const double eps = config.rms_norm_eps;
  Rotation rotation = rotation_of(config, positions_T);
  // Angles are computed in float32 and rounded once, as transformers does.
  rotation.cos_T1E = rotation.cos_T1E.to(embedded_TH.scalar_type());
  rotation.sin_T1E = rotation.sin_T1E.to(embedded_TH.scalar_type());
  const AttentionInputsOf attention_inputs = attention_inputs_of(config.model_type);

  const auto block = [=](std::size_t i, const Layer& layer, const at::Tensor& x_TH) {
    const at::Tensor input_TH = rms_norm(x_TH, layer.input_norm_H, eps);
    const auto [q_TND, k_TMD, v_TMD] = attention_inputs(layer, input_TH, config);
    const at::Tensor attended_TQ = attend(i, rotate(q_TND, rotation), rotate(k_TMD, rotation), v_TMD);
    const at::Tensor after_TH = x_TH + linear(attended_TQ, layer.o_proj_HQ, layer.o_bias_H);

    const at::Tensor middle_TH = rms_norm(after_TH, layer.post_norm_H, eps);
    const at::Tensor gated_TF = at::silu(linear(middle_TH, layer.gate_FH, layer.gate_bias_F)) *
                                linear(middle_TH, layer.up_FH, layer.up_bias_F);
    return after_TH + linear(gated_TF, layer.down_HF, layer.down_bias_H);
  };

  at::Tensor x_TH = embedded_TH;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (activations == Activations::kRecompute) {
      x_TH = recomputed([=](const at::Tensor& x) { return block(i, layer, x); }, x_TH, tensors_of(layer));
    } else {
      x_TH = block(i, layer, x_TH);
    }
  }
  return rms_norm(x_TH, model.norm_H, eps);
}

at::Tensor packed_hidden(const Model& model, const PackedBatch& batch, const at::Tensor& embedded_TH,
                         Activations activations) {
  return decoder_hidden(
      model, embedded_TH, batch.positions_T,
      [&batch](std::size_t, const at::Tensor& q_TND, const at::Tensor& k_TMD, const at::Tensor& v_TMD) {
        return packed_attention(batch, q_TND, k_TMD, v_TMD);
      },
      activations);
}

at::Tensor packed_hidden(const Model& model, const PackedBatch& batch, Activations activations) {
  return packed_hidden(model, batch, at::embedding(model.embed_VH, batch.ids_T), activations);
}

}  // namespace routeopd::model
