// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/api_common.h"

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
  const Sampling cold{.decoding = {.temperature = 0.25}, .max_new_tokens = 1};
  const Rollout written =
      api.write(
             server, info,
             {.prompt_ids = zero, .samples = zero, .sampling = &cold, .capture = {.k = k, .hidden = false}})
          .rollout;
  // From the best value to the last it would be four times as far; 16-bit arithmetic moves either by less
  // than a half. Where values are all but equal, the temperature changes little.
  const auto spread = [](const std::vector<float>& values_K) { return values_K.front() - values_K.back(); };
  if (spread(written.top_logits_NK) > 2 * spread(values.top_logits_NK) + 0.5F)
    throw UnfitServer("{}: its log-probabilities are those after temperature and top-p; {}", server.url(),
                      how);
}

}  // namespace routeopd::engine
