// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/engines.h"

#include "routeopd/base/error.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/train/remote_engines.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::train {
namespace {

// The behaviour student is the one that learns: with weights in bfloat16 where the learner's forward has them
// so.
engine::LocalOptions rollout_options(const Recipe& recipe) {
  engine::LocalOptions options{.kv_bytes = static_cast<std::int64_t>(recipe.rollout.kv_memory * 1e9)};
  if (recipe.student.dtype == Dtype::kBfloat16) options.storage = model::WeightStorage::kBFloat16;
  return options;
}

void check_vocabulary(const engine::Engine& engine, const char* section, std::int32_t real_ids) {
  if (engine.real_ids() != real_ids)
    throw UserError("[{}]: its engine ({}) has {} ids, and the student's tokenizer has {}; expected the same",
                    section, engine.name(), engine.real_ids(), real_ids);
}

// What the objective needs the hidden states for, as the recipe says it.
std::string reason_for_hidden(const routing::ObjectiveOptions& objective) {
  return objective.k == routing::kFullSupport ? "[objective] k: \"full\""
                                              : fmt::format("[objective] arm: {}", objective.arm);
}

}  // namespace

Engines make_engines(const Recipe& recipe, const Inputs& inputs) {
  Engines engines;
  if (recipe.rollout.engine == EngineKind::kLocal || recipe.sft()) {
    engines.student =
        std::make_unique<engine::LocalEngine>(inputs.student, inputs.real_ids, rollout_options(recipe));
  } else {
    engines.student = make_remote_student(recipe, inputs);
  }
  if (!recipe.sft() && recipe.teacher.engine != EngineKind::kLocal) {
    engines.teacher = make_remote_teacher(recipe, inputs, recipe.teacher, "teacher");
  } else if (inputs.teacher) {
    engines.teacher = make_exact_engine(*inputs.teacher, inputs.real_ids);
    engines.teacher_head_UX = inputs.teacher->head_VH;
  }
  return engines;
}

std::unique_ptr<engine::Engine> make_exact_engine(const model::Model& model, std::int32_t real_ids) {
  return std::make_unique<engine::LocalEngine>(model, real_ids);
}

void check_engines(const Recipe& recipe, const Engines& engines, std::int32_t real_ids) {
  ROUTEOPD_INVARIANT(engines.student != nullptr);
  check_vocabulary(*engines.student, "rollout", real_ids);
  const routing::ObjectiveOptions& objective = recipe.objective;
  if (recipe.sft()) return;
  if (engines.teacher == nullptr)
    throw UserError(
        "[teacher]: arm {} learns from a teacher, and none is there; choose one, or arm = \"sft\"",
        objective.arm);
  check_vocabulary(*engines.teacher, "teacher", real_ids);
  if (!needs_teacher_hidden(objective)) return;
  const bool local_teacher =
      engines.teacher->capabilities().hidden_states && engines.teacher_head_UX.defined();
  if (!local_teacher)
    throw UserError(
        "{} needs the teacher's hidden states and LM head, which its engine ({}) does not give; choose a "
        "local teacher, or an arm over a top-k, such as routeopd or union_rkl",
        reason_for_hidden(objective), engines.teacher->name());
  if (objective.k == routing::kFullSupport && !engines.student->capabilities().hidden_states)
    throw UserError(
        "{} needs the student's hidden states, which its engine ({}) does not give; choose a local engine "
        "for the rollout, or a number for k",
        reason_for_hidden(objective), engines.student->name());
}

}  // namespace routeopd::train
