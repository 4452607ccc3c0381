// Llama (1 to 3.x, SmolLM2): projections as they are, with biases where attention_bias asks for them.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/architectures/architectures.h"

namespace routeopd::model {

AttentionInputs llama_attention_inputs(const Layer& layer, const at::Tensor& input_TH,
                                       const formats::ModelConfig& config) {
  return {.q_TND = heads(linear(input_TH, layer.q_proj_QH, layer.q_bias_Q), config),
          .k_TMD = heads(linear(input_TH, layer.k_proj_CH, layer.k_bias_C), config),
          .v_TMD = heads(linear(input_TH, layer.v_proj_CH, layer.v_bias_C), config)};
}

}  // namespace routeopd::model
