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

}  // namespace routeopd::engine
