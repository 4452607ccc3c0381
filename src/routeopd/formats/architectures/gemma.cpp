// Gemma (the first: 2B, 7B, CodeGemma): norms by 1 + weight, embeddings times sqrt(hidden_size), a
// feed-forward gated by GELU, and heads whose size does not follow from hidden_size. transformers reads the
// old files' "gelu" as the tanh form.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/architecture.h"

namespace routeopd::formats {

ArchitectureSpec gemma_spec() {
  return {.model_type = "gemma",
          .class_name = "GemmaForCausalLM",
          .defaults = {.num_key_value_heads = 16,
                       .head_dim = 256,
                       .tie_word_embeddings = true,
                       .eos_token_id = 1},
          .qkv_bias = Bias::kAttentionBias,
          .output_bias = Bias::kAttentionBias,
          .embedding_times_sqrt_hidden = true,
          .norm_offset = 1,
          .activation = Activation::kGeluTanh,
          .activation_names = {"gelu_pytorch_tanh", "gelu"}};
}

}  // namespace routeopd::formats
