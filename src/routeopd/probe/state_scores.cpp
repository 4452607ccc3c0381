// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/state_scores.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/model/decoder.h"
#include "routeopd/model/packed_batch.h"
#include "routeopd/probe/vocabulary_rows.h"
#include "routeopd/routing/controls.h"
#include "routeopd/routing/route_states.h"
#include "routeopd/train/route_rollout.h"
#include "routeopd/types/state_batch.h"

namespace routeopd::probe {
namespace {

template <class T>
std::vector<T> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<T>(), flat.const_data_ptr<T>() + flat.numel()};
}

at::Tensor columns_of(const std::vector<std::int32_t>& ids, std::size_t rows) {
  return at::tensor(at::ArrayRef<std::int32_t>(ids), at::kInt).reshape({static_cast<std::int64_t>(rows), -1});
}

template <class T>
void spread_into(std::vector<T>& target, const std::vector<T>& rows, const Bank& bank, T elsewhere) {
  target = rows.empty() ? std::vector<T>() : spread(rows, bank, elsewhere);
}

}  // namespace

at::Tensor hidden_at(const model::Model& model, const Rollout& rollout,
                     const std::vector<std::size_t>& states_S) {
  for (const Response& response : rollout.responses_B) {
    const std::int64_t tokens =
        std::ssize(rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)]) + response.length;
    if (tokens > model.config.max_position_embeddings)
      throw UserError(
          "bank: a prompt with its response has {} tokens, and one of the models has {} positions; try "
          "shorter "
          "prompts or a smaller --max-new",
          tokens, model.config.max_position_embeddings);
  }
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  auto wanted = states_S.begin();
  for (std::size_t begin = 0; begin < rollout.responses_B.size();) {
    const std::size_t end = model::portion_end(rollout, begin, rollout.responses_B.size(), kForwardTokens);
    const model::ResponseBatch batch = model::pack_responses(rollout, begin, end);
    const at::Tensor hidden_TH = model::packed_hidden(model, batch.packed);
    std::vector<std::int64_t> rows;
    for (; wanted != states_S.end() && static_cast<std::int64_t>(*wanted) < batch.end_state; ++wanted)
      rows.push_back(static_cast<std::int64_t>(*wanted) - batch.first_state);
    const at::Tensor places =
        batch.state_places.index_select(0, at::tensor(at::ArrayRef<std::int64_t>(rows)));
    parts.push_back(hidden_TH.index_select(0, places).to(at::kFloat));
    begin = end;
  }
  return at::cat(parts);
}

StateScores score_states(const Bank& bank, const at::Tensor& hidden_SH, const ScoringHeads& heads,
                         const routing::ObjectiveOptions& objective) {
  const c10::NoGradGuard no_grad;
  StateScores all;
  const std::int32_t k = std::min(train::capture_options(objective).k, heads.real_ids);
  Rollout& rollout = all.rollout;
  for (const std::size_t n : bank.states_S) {
    rollout.id_N.push_back(bank.rollout.id_N[n]);
    rollout.address_N.push_back(bank.rollout.address_N[n]);
  }
  const std::size_t states = bank.states();
  const model::HeadScores student = heads.student.score(hidden_SH, k, columns_of(rollout.id_N, states));
  rollout.columns = k;
  rollout.top_ids_NK = values_of<std::int32_t>(student.top_ids_TK);
  rollout.top_logits_NK = values_of<float>(student.top_logits_TK);
  rollout.logsumexp_N = values_of<float>(student.logsumexp_T);
  rollout.logprob_N = values_of<float>(student.gathered_TG.squeeze(1) - student.logsumexp_T);
  rollout.hidden_size = hidden_SH.size(1);
  rollout.hidden_NH = values_of<float>(hidden_SH);

  const at::Tensor asked = at::cat({student.top_ids_TK, columns_of(rollout.id_N, states)}, 1);
  const model::HeadScores teacher = heads.teacher.score(bank.teacher_hidden_SX, k, asked);
  Scores& scores = all.scores;
  scores.columns = k;
  scores.teacher_ids_NJ = values_of<std::int32_t>(teacher.top_ids_TK);
  scores.teacher_logits_NJ = values_of<float>(teacher.top_logits_TK);
  scores.teacher_logsumexp_N = values_of<float>(teacher.logsumexp_T);
  scores.teacher_at_student_NK = values_of<float>(teacher.gathered_TG.slice(1, 0, k));
  scores.teacher_logprob_N = values_of<float>(teacher.gathered_TG.select(1, k) - teacher.logsumexp_T);
  scores.hidden_size = bank.teacher_hidden_SX.size(1);
  scores.hidden_NX = values_of<float>(bank.teacher_hidden_SX);
  scores.student_at_teacher_NJ =
      values_of<float>(heads.student.score(hidden_SH, 1, teacher.top_ids_TK).gathered_TG);
  if (objective.needs_pool() && objective.k != routing::kFullSupport) {
    scores.pool_columns = routing::kPoolDraws;
    scores.pool_ids_NP = routing::background_pools_NP(rollout, heads.real_ids, bank.seed);
    scores.student_at_pool_NP = values_of<float>(
        heads.student.score(hidden_SH, 1, columns_of(scores.pool_ids_NP, states)).gathered_TG);
  }
  for (std::size_t s = 0; s < states; ++s) {
    const bool finite = std::isfinite(rollout.logsumexp_N[s]) && std::isfinite(scores.teacher_logsumexp_N[s]);
    scores.validity_N.push_back(finite ? Validity::kValid : Validity::kNonFinite);
  }
  return all;
}

Frozen freeze(const Bank& bank, const at::Tensor& hidden_SH, const ScoringHeads& heads,
              const at::Tensor& student_head_VH, const at::Tensor& teacher_head_UX) {
  const StateScores scored = score_states(bank, hidden_SH, heads, bank.objective);
  const StateBatch batch = state_batch_of(scored.rollout, scored.scores, heads.real_ids);
  const Routes routes = routing::route_states(batch, bank.objective, bank.seed, at::get_num_threads(),
                                              /*with_support=*/true);
  Frozen frozen;
  frozen.pairs = routes.pairs;
  frozen.source_SM = routes.source_NM;
  frozen.destination_SM = routes.destination_NM;
  frozen.target_SM = routes.target_NM;
  const std::size_t states = bank.states();
  frozen.transport_S.resize(states);
  for (auto* values : {&frozen.student_logsumexp_S, &frozen.teacher_logsumexp_S, &frozen.student_entropy_S,
                       &frozen.teacher_entropy_S})
    values->resize(states);
  for (std::size_t s = 0; s < states; ++s) {
    if (routes.validity_N[s] != Validity::kValid)
      throw UserError("state {} of the bank: {} values; are both models' weights whole?", s,
                      name_of(routes.validity_N[s]));
  }
  const Support& support = routes.support;
  frozen.teacher_logits_L.resize(support.ids_L.size());
  walk_rows(hidden_SH, student_head_VH, bank.teacher_hidden_SX, teacher_head_UX, heads.real_ids,
            [&](std::size_t s, std::span<const float> student, std::span<const float> teacher) {
              const auto begin = static_cast<std::size_t>(support.offsets_N1[s]),
                         end = static_cast<std::size_t>(support.offsets_N1[s + 1]);
              const routing::reference::Ids ids(support.ids_L.begin() + static_cast<std::ptrdiff_t>(begin),
                                                support.ids_L.begin() + static_cast<std::ptrdiff_t>(end));
              routing::reference::Values z_student, z_teacher;
              for (std::size_t i = begin; i < end; ++i) {
                const auto id = static_cast<std::size_t>(support.ids_L[i]);
                z_student.push_back(static_cast<double>(student[id]));
                z_teacher.push_back(static_cast<double>(teacher[id]));
                frozen.teacher_logits_L[i] = teacher[id];
              }
              frozen.transport_S[s] =
                  routing::reference::transport(ids, z_student, z_teacher, bank.objective);
              // Single precision would lose the targets of states whose mass is near its rounding.
              const auto width = static_cast<std::size_t>(frozen.pairs);
              for (std::size_t i = s * width; i < (s + 1) * width; ++i) {
                if (frozen.source_SM[i] >= 0)
                  frozen.target_SM[i] = static_cast<float>(routing::reference::pair_target(
                      frozen.transport_S[s], frozen.source_SM[i], frozen.destination_SM[i], bank.objective));
              }
              const RowSums of_student = row_sums(student), of_teacher = row_sums(teacher);
              frozen.student_logsumexp_S[s] = of_student.logsumexp;
              frozen.teacher_logsumexp_S[s] = of_teacher.logsumexp;
              frozen.student_entropy_S[s] = of_student.entropy;
              frozen.teacher_entropy_S[s] = of_teacher.entropy;
            });
  return frozen;
}

Routes spread(const Routes& routes, const Bank& bank) {
  Routes all;
  all.states = bank.rollout.states();
  all.pairs = routes.pairs;
  spread_into(all.source_NM, routes.source_NM, bank, -1);
  spread_into(all.destination_NM, routes.destination_NM, bank, -1);
  spread_into(all.target_NM, routes.target_NM, bank, 0.0F);
  spread_into(all.old_NM, routes.old_NM, bank, 0.0F);
  spread_into(all.weight_N, routes.weight_N, bank, 0.0F);
  spread_into(all.validity_N, routes.validity_N, bank, Validity::kPadding);
  spread_into(all.routed_N, routes.routed_N, bank, std::uint8_t{0});
  spread_into(all.mass_N, routes.mass_N, bank, 0.0F);
  const Support& support = routes.support;
  if (support.ids_L.empty()) return all;
  all.support = support;  // states that are not valid own nothing
  all.support.offsets_N1.assign(1, 0);
  std::size_t s = 0;
  for (std::size_t n = 0; n < static_cast<std::size_t>(all.states); ++n) {
    if (s < bank.states() && bank.states_S[s] == n) ++s;
    all.support.offsets_N1.push_back(support.offsets_N1[s]);
  }
  return all;
}

}  // namespace routeopd::probe
