//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/qwen3.h"

#include <cmath>

namespace routeopd::model {
namespace {

// cos and sin of position * theta^(-2i/D), for the D/2 planes that rotary embedding turns; [T, 1, D/2].
struct Rotation {
  at::Tensor cos_T1E, sin_T1E;
};

Rotation rotation_of(const formats::ModelConfig& config, const at::Tensor& positions_T) {
  // Frequencies in float32, as transformers computes them.
  const at::Tensor plane_E =
      at::arange(0, config.head_dim, 2, at::kFloat) / static_cast<double>(config.head_dim);
  const at::Tensor frequency_E = at::pow(config.rope_theta, plane_E).reciprocal();
  const at::Tensor angle_TE = positions_T.to(at::kFloat).unsqueeze(1) * frequency_E.unsqueeze(0);
  return {angle_TE.cos().unsqueeze(1), angle_TE.sin().unsqueeze(1)};
}

// The first half of a head pairs with the second: (x, y) -> (x cos - y sin, y cos + x sin).
at::Tensor rotate(const at::Tensor& x_TND, const Rotation& rotation) {
  const auto halves = x_TND.chunk(2, -1);
  return at::cat({halves[0] * rotation.cos_T1E - halves[1] * rotation.sin_T1E,
                  halves[1] * rotation.cos_T1E + halves[0] * rotation.sin_T1E},
                 -1);
}

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at::rms_norm(x, {weight.size(0)}, weight, eps);
}

}  // namespace

at::Tensor qwen3_hidden(const Model& model, const at::Tensor& ids_T, const at::Tensor& positions_T,
                        const Attend& attend) {
  const formats::ModelConfig& config = model.config;
  const double eps = config.rms_norm_eps;
  const Rotation rotation = rotation_of(config, positions_T);
  at::Tensor x_TH = at::embedding(model.embed_VH, ids_T);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const auto heads = [&](const at::Tensor& x_TC) { return x_TC.view({x_TC.size(0), -1, config.head_dim}); };

    const at::Tensor input_TH = norm(x_TH, layer.input_norm_H, eps);
    const at::Tensor q_TND = heads(at::linear(input_TH, layer.q_proj_QH));
    const at::Tensor k_TMD = heads(at::linear(input_TH, layer.k_proj_CH));
    const at::Tensor v_TMD = heads(at::linear(input_TH, layer.v_proj_CH));
    const at::Tensor attended_TQ = attend(i, rotate(norm(q_TND, layer.q_norm_D, eps), rotation),
                                          rotate(norm(k_TMD, layer.k_norm_D, eps), rotation), v_TMD);
    x_TH = x_TH + at::linear(attended_TQ, layer.o_proj_HQ);

    const at::Tensor middle_TH = norm(x_TH, layer.post_norm_H, eps);
    const at::Tensor gated_TF =
        at::silu(at::linear(middle_TH, layer.gate_FH)) * at::linear(middle_TH, layer.up_FH);
    x_TH = x_TH + at::linear(gated_TF, layer.down_HF);
  }
  return norm(x_TH, model.norm_H, eps);
}

at::Tensor packed_hidden(const Model& model, const PackedBatch& batch) {
  return qwen3_hidden(model, batch.ids_T, batch.positions_T,
                      [&](std::size_t, const at::Tensor& q_TND, const at::Tensor& k_TMD,
                          const at::Tensor& v_TMD) { return packed_attention(batch, q_TND, k_TMD, v_TMD); });
}

}  // namespace routeopd::model
