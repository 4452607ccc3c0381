// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/job.h"

#include <numeric>

#include "routeopd/base/error.h"

namespace routeopd::engine {

std::vector<Job> writing_jobs(std::span<const Prompt> prompts, const Sampling& sampling,
                              const Capture& capture) {
  ROUTEOPD_INVARIANT(sampling.samples_P.empty() || sampling.samples_P.size() == prompts.size());
  std::vector<std::int32_t> all(static_cast<std::size_t>(sampling.n));
  std::iota(all.begin(), all.end(), 0);
  Sampling each = sampling;
  each.samples_P.clear();
  std::vector<Job> jobs;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    jobs.push_back({.name = "prompt " + prompts[p].id,
                    .prompt_ids = prompts[p].ids,
                    .samples = sampling.samples_P.empty() ? all : sampling.samples_P[p],
                    .number = prompts[p].number,
                    .sampling = each,
                    .capture = capture});
    ROUTEOPD_INVARIANT(!jobs.back().samples.empty() && jobs.back().samples.back() < sampling.n);
  }
  return jobs;
}

std::vector<Job> reading_jobs(const Rollout& rollout, const ScoreRequest& request) {
  std::vector<Job> jobs;
  const std::size_t g = static_cast<std::size_t>(request.gather_columns);
  const auto& responses = rollout.responses_B;
  for (std::size_t first = 0; first < responses.size();) {
    std::size_t end = first;
    std::int64_t states = 0;
    while (end < responses.size() && responses[end].prompt == responses[first].prompt)
      states += responses[end++].length;
    const auto ids_of = [&](const Response& response) {
      return std::span(rollout.id_N)
          .subspan(static_cast<std::size_t>(response.first_state), static_cast<std::size_t>(response.length));
    };
    Job job{.name = "score",
            .prompt_ids = rollout.prompt_ids_P[static_cast<std::size_t>(responses[first].prompt)],
            .k = request.k,
            .gather_columns = request.gather_columns,
            .hidden = request.hidden};
    if (end == first + 1) {
      job.prompt_from = std::ssize(job.prompt_ids);
      const auto ids = ids_of(responses[first]);
      job.prompt_ids.insert(job.prompt_ids.end(), ids.begin(), ids.end());
    } else {
      for (std::size_t b = first; b < end; ++b) {
        const auto ids = ids_of(responses[b]);
        job.given.emplace_back(ids.begin(), ids.end());
      }
    }
    const auto gathers = request.gather_ids_NG.subspan(
        static_cast<std::size_t>(responses[first].first_state) * g, static_cast<std::size_t>(states) * g);
    job.gather_ids_RG.assign(gathers.begin(), gathers.end());
    jobs.push_back(std::move(job));
    first = end;
  }
  return jobs;
}

}  // namespace routeopd::engine
