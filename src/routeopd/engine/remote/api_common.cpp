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
  const Sampling hot{.decoding = {.temperature = 4}, .max_new_tokens = 1};
  const Rollout written =
      api.write(server, info,
                {.prompt_ids = zero, .samples = zero, .sampling = &hot, .capture = {.k = k, .hidden = false}})
          .rollout;
  // 0.25: past what 16-bit arithmetic does to one state, and less than what a temperature of 4 does to one
  // that is not all but certain.
  if (std::abs(written.top_logits_NK.at(0) - values.top_logits_NK.at(0)) > 0.25F)
    throw UnfitServer("{}: its log-probabilities are those after temperature and top-p; {}", server.url(),
                      how);
}

}  // namespace routeopd::engine
