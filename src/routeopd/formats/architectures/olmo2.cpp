// OLMo 2: norms after attention and after the feed-forward instead of before, and norms over all heads of the
// queries and of the keys at once.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/architecture.h"

namespace routeopd::formats {

ArchitectureSpec olmo2_spec() {
  TensorNames names;
  names.norm_before_attention = "";
  names.norm_after_attention = "post_attention_layernorm";
  names.norm_before_mlp = "";
  names.norm_after_mlp = "post_feedforward_layernorm";
  return {.model_type = "olmo2",
          .class_name = "Olmo2ForCausalLM",
          .defaults = {.rms_norm_eps = 1e-5, .eos_token_id = 50279},
          .names = names,
          .qkv_bias = Bias::kAttentionBias,
          .output_bias = Bias::kAttentionBias,
          .query_key_norm = QueryKeyNorm::kWholeProjection};
}

}  // namespace routeopd::formats
