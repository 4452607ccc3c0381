// Qwen3: queries and keys are normalised head by head; biases where attention_bias asks for them.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/architectures/architectures.h"

namespace routeopd::model {

AttentionInputs qwen3_attention_inputs(const Layer& layer, const at::Tensor& input_TH,
                                       const formats::ModelConfig& config) {
  const AttentionInputs plain = llama_attention_inputs(layer, input_TH, config);
  return {.q_TND = rms_norm(plain.q_TND, layer.q_norm_D, config.rms_norm_eps),
          .k_TMD = rms_norm(plain.k_TMD, layer.k_norm_D, config.rms_norm_eps),
          .v_TMD = plain.v_TMD};
}

}  // namespace routeopd::model
