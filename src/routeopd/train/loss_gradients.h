// The gradient of an objective: the student's forward over packed micro-batches, the objective through its
// head, and the backward. The learner takes its updates from it; so do the probes, which ask where an update
// would lead.
//
// Shapes: U rows of the teacher's LM head, X its hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "routeopd/model/model.h"
#include "routeopd/model/packed_batch.h"
#include "routeopd/objective/objective.h"
#include "routeopd/train/recipe.h"
#include "routeopd/types/old_values.h"
#include "routeopd/types/rollout.h"
#include "routeopd/types/routes.h"
#include "routeopd/types/scores.h"

namespace routeopd::train {

// The frozen data of a step. `scores` and `routes` are null for the sft arm.
struct Experience {
  const Rollout* rollout = nullptr;
  const Scores* scores = nullptr;
  const Routes* routes = nullptr;
};

// One optimizer batch.
struct BatchResult : objective::ObjectiveResult {
  std::int64_t states = 0;  // valid ones, over all ranks: the denominator
};

// Of responses [first, end).
std::int64_t valid_states(const Experience& experience, std::size_t first, std::size_t end);

struct GradientOptions {
  routing::ObjectiveOptions objective{};
  Dtype dtype = Dtype::kFloat32;  // of forward and backward
  std::int64_t micro_tokens = 16384;
  bool recompute = false;
  double importance_cap = 0;  // of objective::LearnerBatch
  model::Backend heads = model::Backend::kAuto;
};

// What a pass over a step's data compares the student with.
struct OldPass {
  OldValues* values = nullptr;  // the learner's own; null: the experience's
  // No update of the step has been made: the current values are the old ones, and are written to `values`.
  bool first = false;
};

class LossGradients {
 public:
  // Reads `student`, which holds the weights in float32 whatever the type of the forward, and leaves
  // gradients on its tensors. All work is done on the device of these; what is frozen of a step stays on the
  // host, and crosses micro-batch by micro-batch. The teacher's head, which is brought to that device, is for
  // the objectives over the whole vocabulary; others may leave it undefined.
  LossGradients(model::Model& student, at::Tensor teacher_head_UX, std::int32_t real_ids,
                const GradientOptions& options);

  // Loss and gradients of responses [first, end), added to gradients(). They are one optimizer batch, or the
  // part of one that has `states` valid states over all ranks.
  BatchResult accumulate(const Experience& experience, std::size_t first, std::size_t end,
                         const OldPass& old = {}, std::optional<std::int64_t> states = std::nullopt);

  // The old values of responses [first, end) as the weights are now, written to `values`: one forward without
  // gradients, packed as accumulate() packs.
  void record(const Experience& experience, std::size_t first, std::size_t end, OldValues& values);

  // Whether the objective compares with old values at all.
  bool reads_old() const { return objective_->reads_old(); }

  // What the forward reads: the student's weights in the forward's type.
  const model::Model& working() const { return working_; }

  // One per weight of model::trainable(student), in its order, float32. Those of the embedding and the head
  // are buffers of this object.
  std::vector<at::Tensor> gradients();
  void clear();

  // Those of the embedding and the head, one where they are tied.
  std::vector<model::HeadGradient*> tables();

  // Takes over new values of the student's weights.
  void refresh();

 private:
  // Some responses, and the denominator of their losses.
  struct Part {
    std::vector<std::int32_t> actions_N;  // -1 where a state takes no part
    double denominator = 0;
  };
  static Part part_of(const Experience& experience, std::size_t first, std::size_t end);
  objective::LearnerBatch learner_batch(const Experience& experience, const model::ResponseBatch& responses,
                                        const Part& part, const at::Tensor& hidden_TH,
                                        const OldPass& old) const;
  void micro_batch(const Experience& experience, std::size_t first, std::size_t end, const Part& part,
                   const OldPass& old, objective::ObjectiveResult& result);
  void collect_rounded_gradients();
  bool rounded() const { return !working_.norm_H.is_same(student_.norm_H); }
  model::HeadGradient& embedding_gradient() {
    return embedding_gradient_ ? *embedding_gradient_ : head_gradient_;
  }

  model::Model& student_;
  model::Model working_;  // what the forward reads: the student itself, or its weights in bfloat16
  at::Tensor teacher_head_UX_;
  std::int32_t real_ids_;
  GradientOptions options_;
  std::vector<model::Parameter> parameters_;  // of the student
  std::unique_ptr<objective::Objective> objective_;
  // The embeddings of a batch and the rows of the head that a loss reads are few rows of a large table: their
  // gradient is one persistent buffer, shared where the two are tied.
  model::HeadGradient head_gradient_;
  std::optional<model::HeadGradient> embedding_gradient_;
  std::vector<at::Tensor> sums_;  // float32 gradients of a bfloat16 forward; undefined for the tables
};

}  // namespace routeopd::train
