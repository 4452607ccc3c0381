// One objective interface. RouteOPD, sampled reverse KL, the full-vocabulary and union KLs and every ablation
// are the same kind of thing: states in, loss and gradients out. They differ in the head they need and in the
// loss of a token.
//
// Shapes: N states of the whole rollout, T of them in a micro-batch, M pairs per state, H the student's
// hidden size, X the teacher's, V and U rows of their heads, R real ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>

#include "routeopd/model/heads/head_gradient.h"
#include "routeopd/objective/engine_gap.h"
#include "routeopd/routing/options.h"
#include "routeopd/types/old_values.h"
#include "routeopd/types/routes.h"

namespace routeopd::objective {

// What a micro-batch hands to an objective: the learner's hidden states, and the part of the frozen data that
// the arm reads. Rows of hidden_TH are states [first_state, first_state + T) of `routes` and of the sampled_*
// arrays.
struct LearnerBatch {
  at::Tensor hidden_TH;  // float32 or bfloat16
  at::Tensor weight_VH;  // of the LM head
  std::int64_t real_ids = 0;

  // Valid response states in the whole optimizer batch, all micro-batches and ranks: the loss does not depend
  // on how the batch is cut.
  double denominator = 0;

  const Routes* routes = nullptr;
  std::int64_t first_state = 0;

  // sampled_rkl: the action taken at each state of the rollout (-1: none) and both models' log-probability of
  // it. -inf in the teacher counts as log delta_p. sft reads the action alone.
  const std::int32_t* sampled_id_N = nullptr;
  const float* sampled_old_logprob_N = nullptr;
  const float* sampled_teacher_logprob_N = nullptr;

  // full_rkl, full_fkl: the teacher's hidden states at the same rows and its head (its width may differ from
  // the student's; the first R rows are the same ids).
  at::Tensor teacher_hidden_TX;
  at::Tensor teacher_weight_UX;

  // The learner's own old values; null: those of `routes` and sampled_old_logprob_N.
  OldValues* old = nullptr;

  // No update of the step has been made. Current values are the old ones then: with `old` they are kept
  // there, and Delta is zero by definition. And they are compared with the engine's.
  bool first = false;

  // The log-probability of the action as its writer gave it; null: not known.
  const float* engine_logprob_N = nullptr;

  // sampled_rkl: weigh each state by exp(old - engine's log-probability of the action), at most this; 0: all
  // weigh one.
  double importance_cap = 0;

  // Where the step's first forward compares itself with the engine, and nothing elsewhere.
  GapMeter gap_meter() const { return GapMeter(first ? hidden_TH.size(0) : 0); }
};

struct ObjectiveResult {
  double loss = 0;            // sum over the micro-batch's states / denominator
  double change_squares = 0;  // sum over pairs of Delta^2; one-sided, sampled arms: of squared log-ratios
  std::int64_t changes = 0;   // how many: rms Delta at the first minibatch is the capture error
  std::int64_t floored = 0;   // teacher values at -inf that counted as log delta_p
  EngineGap gap;              // at the step's first forward
};

class Objective {
 public:
  virtual ~Objective() = default;

  // Overwrites grad_hidden_TH (float32) and adds to the head's gradient.
  virtual ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                               model::HeadGradient& grad_weight) const = 0;

  // Writes to batch.old what a first step() would: the current values that later ones are compared with. No
  // gradient is formed.
  virtual void record(const LearnerBatch& /*batch*/) const {}

  // Whether the loss compares with old values, so that record() has something to keep.
  virtual bool reads_old() const { return false; }

  // Whether a step multiplies by the whole vocabulary.
  virtual bool dense() const = 0;
};

// The objective that the options describe.
std::unique_ptr<Objective> make_objective(const routing::ObjectiveOptions& options,
                                          model::Backend backend = model::Backend::kAuto);

}  // namespace routeopd::objective
