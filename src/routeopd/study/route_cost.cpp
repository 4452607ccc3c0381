// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/route_cost.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>

#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/grade/statistics.h"
#include "routeopd/kernels/row_topk.h"
#include "routeopd/model/heads/dense_head.h"
#include "routeopd/model/heads/pair_head.h"
#include "routeopd/routing/route_states.h"
#include "routeopd/study/study_pace.h"
#include "routeopd/study/variants.h"
#include "routeopd/types/state_batch.h"

namespace routeopd::study {
namespace {

template <class Work>
double seconds_of(const Work& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return seconds_since(begin);
}

at::Tensor rows_of(const std::vector<float>& hidden, std::int64_t width, std::int64_t first,
                   std::int64_t end) {
  // from_blob wants a pointer to mutable memory; nothing writes through it.
  return at::from_blob(const_cast<float*>(hidden.data()) + first * width, {end - first, width}, at::kFloat);
}

// Top-k and log-partition of every state from whole rows of logits, which are formed in chunks and not timed.
double top_k_seconds(const std::vector<float>& hidden, std::int64_t width, const at::Tensor& head_VH,
                     std::int64_t states, std::int32_t real_ids, std::int32_t k) {
  double seconds = 0;
  const auto columns = static_cast<std::size_t>(std::min(k, real_ids));
  std::vector<float> values(static_cast<std::size_t>(model::kDenseChunk) * columns), lse(model::kDenseChunk);
  std::vector<std::int32_t> ids(values.size());
  for (std::int64_t first = 0; first < states; first += model::kDenseChunk) {
    const std::int64_t end = std::min(first + model::kDenseChunk, states);
    at::Tensor logits_CR = at::empty({end - first, real_ids}, at::kFloat);
    model::dense_logits(rows_of(hidden, width, first, end), head_VH.detach(), real_ids, logits_CR);
    const float* const logits = logits_CR.const_data_ptr<float>();
    seconds += seconds_of([&] {
      at::parallel_for(0, end - first, 16, [&](std::int64_t begin, std::int64_t stop) {
        const auto at = static_cast<std::size_t>(begin);
        kernels::topk_logsumexp(logits + begin * real_ids, stop - begin, real_ids, real_ids,
                                static_cast<std::int32_t>(columns), values.data() + at * columns,
                                ids.data() + at * columns, lse.data() + at);
      });
    });
  }
  return seconds;
}

}  // namespace

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return grade::quantile(values, 0.5);
}

Json route_costs(const LoadedPair& pair, const StudyOptions& options, const std::vector<Prompt>& prompts,
                 const std::function<void()>& watch) {
  const c10::NoGradGuard no_grad;
  const std::int32_t real = pair.tokenizer().real_ids();
  const std::uint64_t seed = options.main_seeds.front();
  const engine::Sampling sampling{
      .n = options.n, .decoding = {}, .max_new_tokens = options.max_new, .seed = seed};
  engine::LocalEngine student(pair.base(), real), teacher(pair.teacher(), real);
  Json table = Json::array();
  for (const auto& [k, m] : kRouteShapes) {
    const std::int32_t columns = std::min(k, real);
    Rollout rollout = student.generate(prompts, sampling, {.k = columns, .hidden = true});
    engine::ScoreOptions scoring;
    scoring.k = columns;
    scoring.teacher_hidden = true;
    const Scores scores = engine::score_rollout(student, teacher, rollout, scoring);
    const Variant variant{"routeopd", Family::kMain, {{"arm", "routeopd"}, {"k", k}, {"m", m}}};
    const routing::ObjectiveOptions objective = objective_of(variant, options);
    const StateBatch batch = state_batch_of(rollout, scores, real);
    const at::Tensor hidden_NH = rows_of(rollout.hidden_NH, rollout.hidden_size, 0, rollout.states());
    std::vector<double> top_k, routing, gather;
    for (std::int32_t round = 0; round <= options.rounds; ++round) {
      const double both = top_k_seconds(rollout.hidden_NH, rollout.hidden_size, pair.base().head_VH,
                                        rollout.states(), real, k) +
                          top_k_seconds(scores.hidden_NX, scores.hidden_size, pair.teacher().head_VH,
                                        rollout.states(), real, k);
      Routes routes;
      const double route =
          seconds_of([&] { routes = routing::route_states(batch, objective, seed, at::get_num_threads()); });
      const auto ids_NM = [&](std::vector<std::int32_t>& ids) {
        return at::from_blob(ids.data(), {routes.states, routes.pairs}, at::kInt);
      };
      const double pairs = seconds_of([&] {
        model::pair_log_odds(hidden_NH, pair.base().head_VH.detach(), ids_NM(routes.source_NM),
                             ids_NM(routes.destination_NM));
      });
      if (round == 0) continue;  // memory and caches
      top_k.push_back(both);
      routing.push_back(route);
      gather.push_back(pairs);
    }
    table.push_back({{"k", k},
                     {"m", m},
                     {"top_k_ms", 1e3 * median_of(top_k)},
                     {"routing_ms", 1e3 * median_of(routing)},
                     {"gather_ms", 1e3 * median_of(gather)}});
    if (watch) watch();
  }
  return table;
}

}  // namespace routeopd::study
