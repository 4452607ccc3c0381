// Qwen2 and Qwen2.5 (DeepSeek-R1-Distill-Qwen, OpenMath-Nemotron): Llama whose queries, keys and values
// always have biases and whose output never has one, whatever attention_bias says.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/architecture.h"

namespace routeopd::formats {

ArchitectureSpec qwen2_spec() {
  return {.model_type = "qwen2",
          .class_name = "Qwen2ForCausalLM",
          .defaults = {.num_key_value_heads = 32},
          .windows = WindowKeys::kEachLayer,
          .qkv_bias = Bias::kAlways};
}

}  // namespace routeopd::formats
