// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/api_common.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace routeopd::engine {

void check_log_probabilities(const ServerApi& api, Connection& server, const ServerInfo& info, bool writes,
                             std::int32_t k, const std::string& how) {
  if (k < 1) return;
  const std::vector<std::int32_t> zero = {0};
  const StateValues values =
      api.read(server, info, {.prompt_ids = zero, .responses = {zero}, .k = k}).answer.values;
  if (values.top_logits_NK.empty()) throw BadAnswer("{}: it has no values for two tokens", server.url());
  double sum = 0;
  for (const float value : values.top_logits_NK) sum += std::isnan(value) ? 0 : std::exp(value);
  if (sum > 1.05)
    throw UnfitServer("{}: it sends logits in place of log-probabilities; {}", server.url(), how);
  if (!writes) return;
  const Sampling hot{.decoding = {.temperature = 2}, .max_new_tokens = 1};  // vLLM takes no higher one
  const Rollout written =
      api.write(server, info,
                {.prompt_ids = zero, .samples = zero, .sampling = &hot, .capture = {.k = k, .hidden = false}})
          .rollout;
  // A temperature of 2 halves what lies between the best and the worst value; 16-bit arithmetic does not.
  const auto spread = [](const std::vector<float>& logits) {
    const auto worst = std::find_if(logits.rbegin(), logits.rend(), [](float x) { return std::isfinite(x); });
    return worst == logits.rend() ? 0.0F : logits.front() - *worst;
  };
  const float read = spread(values.top_logits_NK), sampled = spread(written.top_logits_NK);
  if (std::abs(read - sampled) > std::max(0.05F, read / 4))
    throw UnfitServer("{}: its log-probabilities are those after temperature and top-p; {}", server.url(),
                      how);
}

}  // namespace routeopd::engine
