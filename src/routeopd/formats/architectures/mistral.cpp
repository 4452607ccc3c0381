// Mistral (7B, Nemo): Llama without biases; version 0.1 has a sliding window, which is refused.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/architecture.h"

namespace routeopd::formats {

ArchitectureSpec mistral_spec() {
  return {.model_type = "mistral",
          .class_name = "MistralForCausalLM",
          .defaults = {.num_key_value_heads = 8, .eos_token_id = 2},
          .windows = WindowKeys::kAllLayers};
}

}  // namespace routeopd::formats
