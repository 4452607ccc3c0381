// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/share.h"

#include <algorithm>
#include <cmath>

namespace routeopd::scale {

Lengths lengths_of(const Workload& workload, const Assumptions& assumptions) {
  return {assumptions.response_tokens, workload.longest_response, assumptions.length_spread};
}

Share share_of(const Workload& workload, const Assumptions& assumptions, std::int64_t gpus) {
  const Lengths lengths = lengths_of(workload, assumptions);
  Share share;
  share.prompts = std::ceil(workload.prompts / static_cast<double>(gpus));
  share.responses = share.prompts * workload.responses_per_prompt;
  share.prompt_length = assumptions.prompt_tokens;
  share.prompt_tokens = share.prompts * share.prompt_length;
  share.longest = lengths.longest_of(workload.responses());
  share.response_tokens = std::max(share.responses * lengths.mean(), share.longest);
  share.squares = std::max(share.responses * lengths.mean_square(), share.longest * share.longest);
  return share;
}

double attention_operations(const ModelShape& model, const Share& share) {
  const double attended = share.prompts * share.prompt_length * share.prompt_length / 2 +
                          share.response_tokens * share.prompt_length + share.squares / 2;
  return 4 * model.layers * model.query * attended;
}

double forward_operations(const ModelShape& model, const Share& share) {
  return 2 * model.body * share.tokens() + attention_operations(model, share);
}

}  // namespace routeopd::scale
