// Llama (1 to 3.x, SmolLM2): biases where config.json asks for them.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/architecture.h"

namespace routeopd::formats {

ArchitectureSpec llama_spec() {
  return {.model_type = "llama",
          .class_name = "LlamaForCausalLM",
          .defaults = {.eos_token_id = 2},
          .qkv_bias = Bias::kAttentionBias,
          .output_bias = Bias::kAttentionBias,
          .mlp_bias = Bias::kMlpBias};
}

}  // namespace routeopd::formats
