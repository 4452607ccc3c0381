// Who writes and who scores in a run. The one place where a recipe becomes engines.
//
// Shapes: U rows of the teacher's LM head, X its hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/ranks/group.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

struct TeacherEngine {
  std::string name;                        // RunTeacher::name
  std::unique_ptr<engine::Engine> engine;  // scores; null: none was made for it
  // Of a teacher whose weights are here, for the arms over the whole vocabulary; undefined: it has none.
  at::Tensor head_UX;
};

struct Engines {
  std::unique_ptr<engine::Engine> student;  // writes; refreshed after every update of the weights that learn
  std::vector<TeacherEngine> teachers;      // in the order of Recipe::run_teachers(); none for the sft arm

  // Who scores, as engine::score_rollout() takes them.
  std::vector<engine::Engine*> scorers() const;

  // The LM head of the only teacher; undefined where there are several, or it has none.
  at::Tensor teacher_head_UX() const;
};

// The teachers of a run that has one.
std::vector<TeacherEngine> one_teacher(std::unique_ptr<engine::Engine> engine, at::Tensor head_UX = {});

// Those that the recipe names, over the models of `inputs`. Of several servers a rank has its share: of the
// student's one at least of its own, which it refreshes; the teachers' may be shared. Throws UserError where
// there are fewer of the former than ranks.
Engines make_engines(const Recipe& recipe, const Inputs& inputs, const ranks::Group& group = ranks::alone());

// An engine over a model's weights as they are, exact whatever the rollout's are: for evaluations and probes.
std::unique_ptr<engine::Engine> make_exact_engine(const model::Model& model, std::int32_t real_ids);

// Throws UserError, naming the arm or setting, for engines that cannot give what the recipe's objective
// needs.
void check_engines(const Recipe& recipe, const Engines& engines, std::int32_t real_ids);

}  // namespace routeopd::train
