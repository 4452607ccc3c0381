// Qwen3: queries and keys are normalised head by head.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/architecture.h"

namespace routeopd::formats {

ArchitectureSpec qwen3_spec() {
  return {.model_type = "qwen3",
          .class_name = "Qwen3ForCausalLM",
          .defaults = {.num_key_value_heads = 32, .head_dim = 128},
          .windows = WindowKeys::kEachLayer,
          .qkv_bias = Bias::kAttentionBias,
          .output_bias = Bias::kAttentionBias,
          .query_key_norm = QueryKeyNorm::kEachHead};
}

}  // namespace routeopd::formats
