// SPDX-License-Identifier: Apache-2.0
#include "routeopd/run/workload.h"

#include <algorithm>

#include "routeopd/model/decoder.h"
#include "routeopd/model/heads/dense_head.h"
#include "routeopd/objective/objective.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::run {
namespace {

// Of a number of a checkpoint, by what its configuration says of it.
double stored_bytes(const formats::ModelConfig& config) {
  return config.dtype == "bfloat16" || config.dtype == "float16" ? 2 : 4;
}

scale::Head head_of(const routing::ObjectiveOptions& objective, bool dense) {
  if (dense || objective.k == routing::kFullSupport) return scale::Head::kDense;
  const bool support = objective.loss != routing::Loss::kRouted || objective.pairs == routing::Pairs::kExact;
  return support ? scale::Head::kGather : scale::Head::kPair;
}

// Forwards of the learner without gradients, over a step's data (docs/training.md, "Old values").
double extra_forwards(const train::Recipe& recipe, bool reads_old) {
  if (recipe.sft()) return 0;
  if (recipe.rollout.student_values == train::StudentValues::kLearner) return 1;
  const double minibatches = recipe.train.minibatches;
  const bool learner = recipe.rollout.old_scores == train::OldScores::kLearner && reads_old;
  return learner ? (minibatches - 1) / minibatches : 0;
}

}  // namespace

scale::Workload workload_of(const train::Recipe& recipe, const formats::ModelConfig& student,
                            const std::vector<formats::ModelConfig>& teachers) {
  const auto objective = objective::make_objective(recipe.objective);
  scale::Workload work;
  work.compute_bytes = recipe.student.dtype == train::Dtype::kBfloat16 ? 2 : 4;
  work.student =
      scale::shape_of(student, work.compute_bytes, static_cast<double>(model::activation_floats(student)));
  for (const formats::ModelConfig& teacher : teachers)
    work.teachers.push_back(scale::shape_of(teacher, stored_bytes(teacher)));
  work.writes = !recipe.sft();
  work.writes_here = recipe.rollout.engine == train::EngineKind::kLocal;
  for (const train::RunTeacher& teacher : recipe.run_teachers())
    work.scores_here = work.scores_here && teacher.section->engine == train::EngineKind::kLocal;
  work.routes = recipe.makes_routes();

  work.steps = static_cast<double>(recipe.train.steps);
  work.prompts = recipe.rollout.prompts_per_step;
  work.responses_per_prompt = recipe.sft() ? 1 : recipe.rollout.n;
  work.longest_response = static_cast<double>(recipe.rollout.max_new_tokens);
  work.minibatches = recipe.train.minibatches;
  work.epochs = recipe.train.epochs;
  work.micro_tokens = static_cast<double>(recipe.train.micro_tokens);
  work.extra_forwards = extra_forwards(recipe, objective->reads_old());
  work.rescored = work.writes && recipe.rollout.old_scores == train::OldScores::kRescore ? 1 : 0;
  work.recompute = recipe.train.recompute;
  work.kv_bytes = recipe.rollout.kv_memory * 1e9;

  work.head = head_of(recipe.objective, objective->dense());
  work.top_k = std::min<double>(recipe.objective.k, work.student.vocabulary);
  work.pair_rows = 2.0 * recipe.objective.m;
  work.head_rows = work.head == scale::Head::kGather ? 2 * work.top_k : work.pair_rows;
  work.dense_chunk = static_cast<double>(model::kDenseChunk);
  work.teacher_logits = !recipe.sft() && train::needs_teacher_hidden(recipe.objective);
  return work;
}

void count_prompts(const std::vector<Prompt>& prompts, scale::Workload& workload,
                   scale::Assumptions& assumptions) {
  double tokens = 0, given = 0, longest_given = 0;
  for (const Prompt& prompt : prompts) {
    const auto length = static_cast<double>(prompt.ids.size());
    const auto response = static_cast<double>(prompt.response_ids.size());
    tokens += length;
    given += response;
    workload.longest_prompt = std::max(workload.longest_prompt, length);
    longest_given = std::max(longest_given, response);
  }
  if (prompts.empty()) return;
  const auto count = static_cast<double>(prompts.size());
  if (assumptions.prompt_tokens == 0) assumptions.prompt_tokens = tokens / count;
  if (workload.writes) return;
  workload.longest_response = longest_given;
  if (assumptions.response_tokens == 0) assumptions.response_tokens = given / count;
}

}  // namespace routeopd::run
