// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/decoder.h"

#include <memory>
#include <numbers>
#include <utility>

#include "routeopd/base/error.h"
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

// x W^T, plus the bias where there is one.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

at::Tensor activated(const at::Tensor& x, formats::Activation activation) {
  return activation == formats::Activation::kSilu ? at::silu(x) : at::gelu(x, "tanh");
}

// What the blocks of one forward share: configuration, architecture, rotation and attention.
class BlockForward {
 public:
  BlockForward(const formats::ModelConfig& config, Rotation rotation, Attend attend)
      : config_(config),
        spec_(config.architecture()),
        rotation_(std::move(rotation)),
        attend_(std::move(attend)) {}

  at::Tensor operator()(std::size_t i, const Layer& layer, const at::Tensor& x_TH) const {
    const at::Tensor attended_TH = attention(i, layer, norm(x_TH, layer.norm_before_attention_H));
    const at::Tensor after_TH = x_TH + norm(attended_TH, layer.norm_after_attention_H);
    const at::Tensor fed_TH = feed_forward(layer, norm(after_TH, layer.norm_before_mlp_H));
    return after_TH + norm(fed_TH, layer.norm_after_mlp_H);
  }

  // x / sqrt(mean(x^2) + eps) * (offset + weight), over the last dimension; x where there is no weight. With
  // an offset in float32, whatever the type: near one, bfloat16 would round the weight to steps of 1/128.
  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) const {
    if (!weight.defined()) return x;
    if (spec_.norm_offset == 0) return at::rms_norm(x, {weight.size(0)}, weight, config_.rms_norm_eps);
    return at::rms_norm(x.to(at::kFloat), {weight.size(0)}, weight.to(at::kFloat) + spec_.norm_offset,
                        config_.rms_norm_eps)
        .to(x.scalar_type());
  }

 private:
  // [T, N * D] as [T, N, D].
  at::Tensor heads(const at::Tensor& x_TC) const { return x_TC.view({x_TC.size(0), -1, config_.head_dim}); }

  at::Tensor query_key_norm(const at::Tensor& x_TND, const at::Tensor& weight) const {
    if (spec_.query_key_norm == formats::QueryKeyNorm::kWholeProjection)
      return heads(norm(x_TND.flatten(1), weight));
    return norm(x_TND, weight);
  }

  at::Tensor attention(std::size_t i, const Layer& layer, const at::Tensor& input_TH) const {
    at::Tensor q_TND = heads(linear(input_TH, layer.q_proj_QH, layer.q_bias_Q));
    at::Tensor k_TMD = heads(linear(input_TH, layer.k_proj_CH, layer.k_bias_C));
    const at::Tensor v_TMD = heads(linear(input_TH, layer.v_proj_CH, layer.v_bias_C));
    q_TND = query_key_norm(q_TND, layer.q_norm);
    k_TMD = query_key_norm(k_TMD, layer.k_norm);
    const at::Tensor attended_TQ = attend_(i, rotate(q_TND, rotation_), rotate(k_TMD, rotation_), v_TMD);
    return linear(attended_TQ, layer.o_proj_HQ, layer.o_bias_H);
  }

  at::Tensor feed_forward(const Layer& layer, const at::Tensor& input_TH) const {
    const at::Tensor gated_TF =
        activated(linear(input_TH, layer.gate_FH, layer.gate_bias_F), spec_.activation) *
        linear(input_TH, layer.up_FH, layer.up_bias_F);
    return linear(gated_TF, layer.down_HF, layer.down_bias_H);
  }

  formats::ModelConfig config_;
  const formats::ArchitectureSpec& spec_;
  Rotation rotation_;
  Attend attend_;
};

// The scale is rounded to the type of the rows, as transformers does.
at::Tensor scaled_rows(const at::Tensor& embedded_TH, const formats::ModelConfig& config) {
  if (!config.architecture().embedding_times_sqrt_hidden) return embedded_TH;
  return embedded_TH * at::scalar_tensor(config.embedding_scale(), at::kFloat).to(embedded_TH.scalar_type());
}

}  // namespace

Rotation rotation_of(const formats::ModelConfig& config, const at::Tensor& positions_T) {
  const at::Tensor on_device_E = frequencies_E(config).to(positions_T.device());
  const at::Tensor angle_TE = positions_T.to(at::kFloat).unsqueeze(1) * on_device_E.unsqueeze(0);
  return {angle_TE.cos().unsqueeze(1), angle_TE.sin().unsqueeze(1)};
}

// Residuals and norms (each branch keeps its input and, per norm, one more of that size), the projections
// before and after rotation, what attention was given and gave, the gated feed-forward.
std::int64_t activation_floats(const formats::ModelConfig& config) {
  const formats::TensorNames& names = config.architecture().names;
  std::int64_t hidden = 2;
  for (const std::string* name : {&names.norm_before_attention, &names.norm_after_attention,
                                  &names.norm_before_mlp, &names.norm_after_mlp})
    hidden += name->empty() ? 0 : 1;
  return hidden * config.hidden_size + 7 * config.query_size() + 5 * config.key_size() +
         4 * config.intermediate_size;
}

at::Tensor decoder_hidden(const Model& model, const at::Tensor& embedded_TH, const at::Tensor& positions_T,
                          const Attend& attend, Activations activations) {
  Rotation rotation = rotation_of(model.config, positions_T);
  // Angles are computed in float32 and rounded once, as transformers does.
  rotation.cos_T1E = rotation.cos_T1E.to(embedded_TH.scalar_type());
  rotation.sin_T1E = rotation.sin_T1E.to(embedded_TH.scalar_type());
  const auto block = std::make_shared<const BlockForward>(model.config, std::move(rotation), attend);
  at::Tensor x_TH = scaled_rows(embedded_TH, model.config);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (activations == Activations::kRecompute) {
      // By value: the layer's handles and the block live until the backward.
      x_TH = recomputed([=](const at::Tensor& x) { return (*block)(i, layer, x); }, x_TH, tensors_of(layer));
    } else {
      x_TH = (*block)(i, layer, x_TH);
    }
  }
  return block->norm(x_TH, model.norm_H);
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
