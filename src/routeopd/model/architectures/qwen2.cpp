// Qwen2 and Qwen2.5 (DeepSeek-R1-Distill-Qwen, OpenMath-Nemotron): Llama's attention whose queries, keys and values
// always have biases and whose output never has one.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/error.h"
#include "routeopd/model/architectures/architectures.h"

namespace routeopd::model {

AttentionInputs qwen2_attention_inputs(const Layer& layer, const at::Tensor& input_TH,
                                       const formats::ModelConfig& config) {
  ROUTEOPD_INVARIANT(layer.q_bias_Q.defined() && !layer.o_bias_H.defined());
  return llama_attention_inputs(layer, input_TH, config);
}

}  // namespace routeopd::model
