// A step on the golden batch whose engine is wrong by a known amount, and the learner's values by a plain
// forward: for tests of where old values come from.
//
// Shapes: N states, R real ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/GradMode.h>

#include <cmath>
#include <string>
#include <vector>

#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/model/decoder.h"
#include "routeopd/train/learner.h"
#include "routeopd/train/route_rollout.h"
#include "tiny_models.h"
#include "train/golden_rollout.h"

namespace routeopd::train {

struct OldStep {
  Recipe recipe;
  model::Model student = model::load_model(tiny("student"));
  model::Model teacher = model::load_model(tiny("teacher"));
  std::int32_t real_ids = 0;
  Rollout rollout;
  Scores scores;
  Routes routes;

  // The goldens' responses to the tiny pair.
  explicit OldStep(const std::string& arm, const Json& more = Json::object()) {
    const Json batch = tiny_json("batch.json");
    rollout = golden_rollout(batch, 0);
    real_ids = batch["settings"]["real_ids"];
    recipe = golden_recipe(batch["settings"], arm, more);
    score_and_route();
  }

  // Given responses to another pair.
  OldStep(const Recipe& named, Rollout responses, std::int32_t ids)
      : recipe(named),
        student(model::load_model(named.student.path)),
        teacher(model::load_model(named.teacher.path)),
        real_ids(ids),
        rollout(std::move(responses)) {
    score_and_route();
  }

  void score_and_route() {
    engine::LocalEngine write(student, real_ids), read(teacher, real_ids);
    scores = engine::score_rollout(write, read, rollout,
                                   score_options(recipe.objective, rollout, true, recipe.seed, real_ids));
    rollout.engine_logprob_N.clear();  // the golden batch has none of its own
    routes = route_rollout(rollout, scores, recipe.objective, recipe.seed,
                           {student.head_VH, teacher.head_VH, real_ids});
  }

  Experience experience() const { return {&rollout, &scores, &routes}; }

  // An engine that is off by an amount of its own at every value, up to `size` nats.
  void spoil_engine(double size) {
    const auto off = [size](std::size_t i) {
      return static_cast<float>(size * std::sin(1.0 + 2.0 * static_cast<double>(i)));
    };
    for (std::size_t i = 0; i < routes.old_NM.size(); ++i) routes.old_NM[i] += off(i);
    std::vector<float>& logits = routes.support.old_logits_L;
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] += off(i);
    for (std::size_t i = 0; i < rollout.logprob_N.size(); ++i) rollout.logprob_N[i] += off(i);
  }

  // A forward's last hidden states, response by response.
  at::Tensor hidden_NH(const model::Model& model) const {
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> rows;
    for (std::size_t b = 0; b < rollout.responses_B.size(); ++b) {
      const model::ResponseBatch one = model::pack_responses(rollout, b, b + 1);
      rows.push_back(model::packed_hidden(model, one.packed).index_select(0, one.state_places));
    }
    return at::cat(rows).to(at::kDouble);
  }

  // The current student's log-probabilities at every state, in float64 from its hidden states on.
  at::Tensor log_probs_NR() const {
    const c10::NoGradGuard no_grad;
    return at::log_softmax(
        at::matmul(hidden_NH(student), student.head_VH.slice(0, 0, real_ids).to(at::kDouble).t()), 1);
  }

  // How far the forward in bfloat16 is from float32's: the last hidden states, relative to their norm; and
  // the taken tokens' log-probabilities, relative to the norm of the advantages log p_T - log p_S.
  struct ForwardRounding {
    double hidden = 0, advantage = 0;
  };
  ForwardRounding forward_rounding() {
    const c10::NoGradGuard no_grad;
    recipe.student.dtype = Dtype::kBfloat16;
    const Learner learner(student, teacher.head_VH, real_ids, recipe);
    const at::Tensor exact_NH = hidden_NH(student),
                     rounded_NH = hidden_NH(learner.loss_gradients().working());
    const auto taken_N = [&](const at::Tensor& hidden, const at::Tensor& head_VH) {
      const at::Tensor ids = at::tensor(rollout.id_N).to(at::kLong).unsqueeze(1);
      return at::log_softmax(at::matmul(hidden, head_VH.detach().slice(0, 0, real_ids).to(at::kDouble).t()),
                             1)
          .gather(1, ids)
          .squeeze(1);
    };
    const at::Tensor exact_N = taken_N(exact_NH, student.head_VH),
                     rounded_N = taken_N(rounded_NH, learner.loss_gradients().working().head_VH),
                     advantage_N = at::tensor(scores.teacher_logprob_N).to(at::kDouble) - exact_N;
    return {relative_error(rounded_NH, exact_NH),
            ((rounded_N - exact_N).norm() / advantage_N.norm()).item<double>()};
  }

  // The frozen old values replaced by those of the student as it is: what `learner` is to compute.
  void take_plain_values() {
    const at::Tensor log_probs = log_probs_NR();
    const auto at = [&](std::size_t n, std::int32_t id) {
      return log_probs[static_cast<std::int64_t>(n)][id].item<float>();
    };
    const auto m = static_cast<std::size_t>(routes.pairs);
    for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
      rollout.logprob_N[n] = at(n, rollout.id_N[n]);
      for (std::size_t i = n * m; i < (n + 1) * m && routes.source_NM[i] >= 0; ++i) {
        const float source = at(n, routes.source_NM[i]), destination = at(n, routes.destination_NM[i]);
        routes.old_NM[i] = recipe.objective.side == routing::Side::kPair     ? destination - source
                           : recipe.objective.side == routing::Side::kSource ? source
                                                                             : destination;
      }
      if (routes.support.old_logits_L.empty()) continue;
      for (auto i = static_cast<std::size_t>(routes.support.offsets_N1[n]);
           i < static_cast<std::size_t>(routes.support.offsets_N1[n + 1]); ++i)
        routes.support.old_logits_L[i] = at(n, routes.support.ids_L[i]);
    }
  }

  // All gradients of a first update, in one row.
  at::Tensor first_gradient(OldScores old, Dtype dtype = Dtype::kFloat32) {
    recipe.rollout.old_scores = old;
    recipe.student.dtype = dtype;
    Learner learner(student, teacher.head_VH, real_ids, recipe);
    OldValues values{routes.old_NM, routes.support.old_logits_L, rollout.logprob_N};
    const OldPass pass{old == OldScores::kLearner ? &values : nullptr, true};
    learner.loss_gradients().accumulate(experience(), 0, rollout.responses_B.size(), pass);
    std::vector<at::Tensor> all;
    for (const at::Tensor& gradient : learner.loss_gradients().gradients()) all.push_back(gradient.flatten());
    const at::Tensor row = at::cat(all).clone();
    learner.loss_gradients().clear();
    return row;
  }

  // All weights, in one row.
  at::Tensor weights() const {
    std::vector<at::Tensor> all;
    for (const auto& parameter : model::parameters(student))
      all.push_back(parameter.tensor.detach().flatten());
    return at::cat(all).clone();
  }
};

}  // namespace routeopd::train
