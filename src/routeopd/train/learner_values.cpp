// Shapes: N states of a rollout, T of them in a micro-batch, G ids gathered per state, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/learner_values.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/model/decoder.h"
#include "routeopd/model/heads/gather_head.h"
#include "routeopd/model/heads/streaming_head.h"
#include "routeopd/model/packed_batch.h"

namespace routeopd::train {
namespace {

engine::Answer answer_to(const Rollout& rollout) {
  engine::Answer answer;
  for (const Response& response : rollout.responses_B) answer.rows_B.push_back(response.length);
  answer.id_N = rollout.id_N;
  return answer;
}

template <class T>
void append(std::vector<T>& all, const at::Tensor& more) {
  const at::Tensor flat = more.to(at::kCPU).contiguous();
  all.insert(all.end(), flat.const_data_ptr<T>(), flat.const_data_ptr<T>() + flat.numel());
}

}  // namespace

Rollout LearnerValues::write_responses(std::span<const Prompt>, const engine::Sampling&,
                                       const engine::Capture&, const engine::Watch&) {
  throw UserError("engine learner: it scores what others wrote, and writes nothing itself");
}

engine::Answer LearnerValues::read_responses(const Rollout& rollout, const engine::ScoreRequest& request) {
  const c10::NoGradGuard no_grad;
  engine::Answer answer = answer_to(rollout);
  engine::StateValues& values = answer.values;
  values.columns = std::min(request.k, real_ids_);
  values.hidden_size = request.hidden ? working_.config.hidden_size : 0;
  // Packed for this pass alone: a second copy of the head is not kept beside the learner.
  const model::StreamingHead head(working_.head_VH.detach(), real_ids_);
  for (const auto& [begin, stop] : minibatches_of(rollout, options_.minibatches, options_.step)) {
    for (std::size_t first = begin; first < stop;) {
      const std::size_t end = model::portion_end(rollout, first, stop, options_.micro_tokens);
      const model::ResponseBatch responses =
          model::on_device(model::pack_responses(rollout, first, end), working_.device());
      const at::Tensor hidden_TH = model::packed_hidden(working_, responses.packed)
                                       .index_select(0, responses.state_places)
                                       .to(at::kFloat);
      at::Tensor gather_TG;
      if (request.gather_columns > 0) {
        std::int32_t* const ids = const_cast<std::int32_t*>(request.gather_ids_NG.data()) +
                                  responses.first_state * request.gather_columns;
        gather_TG =
            at::from_blob(ids, {hidden_TH.size(0), request.gather_columns}, at::kInt).to(working_.device());
      }
      const model::HeadScores scores = head.score(hidden_TH, std::max(values.columns, 1), gather_TG);
      if (values.columns > 0) {
        append(values.top_ids_NK, scores.top_ids_TK);
        append(values.top_logits_NK, scores.top_logits_TK);
      }
      append(values.logsumexp_N, scores.logsumexp_T);
      if (request.gather_columns > 0) append(values.gathered_NG, scores.gathered_TG);
      if (request.hidden) append(values.hidden_NH, hidden_TH);
      values.tokens_read += responses.packed.tokens();
      first = end;
    }
  }
  return answer;
}

engine::Answer LearnerValues::gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                                            std::int64_t columns) {
  if (rollout.hidden_size == 0) return Engine::gather_values(rollout, ids_NG, columns);
  const c10::NoGradGuard no_grad;
  ROUTEOPD_INVARIANT(rollout.hidden_size == working_.config.hidden_size);
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> ids;
  for (std::int64_t n = 0; n < rollout.states(); ++n) {
    for (const std::int32_t id :
         ids_NG.subspan(static_cast<std::size_t>(n * columns), static_cast<std::size_t>(columns)))
      if (id >= 0) ids.push_back(id);
    offsets.push_back(std::ssize(ids));
  }
  const at::Tensor hidden_NH = at::from_blob(const_cast<float*>(rollout.hidden_NH.data()),
                                             {rollout.states(), rollout.hidden_size}, at::kFloat)
                                   .to(working_.device());
  const at::Tensor logits =
      model::gather_logits(hidden_NH, working_.head_VH.detach(), {offsets, ids}).to(at::kCPU);
  const float* next = logits.const_data_ptr<float>();
  engine::Answer answer = answer_to(rollout);
  std::vector<float>& values = answer.values.gathered_NG;
  values.assign(ids_NG.size(), std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < ids_NG.size(); ++i)
    if (ids_NG[i] >= 0) values[i] = *next++;
  return answer;
}

}  // namespace routeopd::train
