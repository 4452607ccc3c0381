// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/engines.h"

#include <utility>

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

void check_vocabulary(const engine::Engine& engine, const std::string& section, std::int32_t real_ids) {
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

Engines make_engines(const Recipe& run, const Inputs& inputs, const ranks::Group& group) {
  const Recipe recipe = with_share_of_servers(run, group.rank(), group.size());
  Engines engines;
  if (recipe.rollout.engine == EngineKind::kLocal || recipe.sft()) {
    engines.student =
        std::make_unique<engine::LocalEngine>(inputs.student, inputs.real_ids, rollout_options(recipe));
  } else {
    engines.student = make_remote_student(recipe, inputs, group.rank());
  }
  const std::vector<RunTeacher> teachers = recipe.run_teachers();
  ROUTEOPD_INVARIANT(teachers.size() == inputs.teachers.size());
  for (std::size_t t = 0; t < teachers.size(); ++t) {
    const TeacherInput& input = inputs.teachers[t];
    TeacherEngine& teacher = engines.teachers.emplace_back();
    teacher.name = input.name;
    if (teachers[t].section->engine != EngineKind::kLocal) {
      teacher.engine = make_remote_teacher(recipe, inputs, static_cast<std::int32_t>(t));
    } else if (input.model) {
      teacher.engine = make_exact_engine(*input.model, inputs.real_ids);
      teacher.head_UX = input.model->head_VH;
    }
  }
  return engines;
}

std::vector<TeacherEngine> one_teacher(std::unique_ptr<engine::Engine> engine, at::Tensor head_UX) {
  std::vector<TeacherEngine> teachers(1);
  teachers.front().engine = std::move(engine);
  teachers.front().head_UX = std::move(head_UX);
  return teachers;
}

std::vector<engine::Engine*> Engines::scorers() const {
  std::vector<engine::Engine*> all;
  for (const TeacherEngine& teacher : teachers) all.push_back(teacher.engine.get());
  return all;
}

at::Tensor Engines::teacher_head_UX() const {
  return teachers.size() == 1 ? teachers.front().head_UX : at::Tensor();
}

std::unique_ptr<engine::Engine> make_exact_engine(const model::Model& model, std::int32_t real_ids) {
  return std::make_unique<engine::LocalEngine>(model, real_ids);
}

void check_engines(const Recipe& recipe, const Engines& engines, std::int32_t real_ids) {
  ROUTEOPD_INVARIANT(engines.student != nullptr);
  check_vocabulary(*engines.student, "rollout", real_ids);
  const routing::ObjectiveOptions& objective = recipe.objective;
  if (recipe.sft()) return;
  const std::vector<RunTeacher> named = recipe.run_teachers();
  for (std::size_t t = 0; t < named.size(); ++t) {
    const engine::Engine* const teacher =
        t < engines.teachers.size() ? engines.teachers[t].engine.get() : nullptr;
    if (teacher == nullptr)
      throw UserError("[{}]: arm {} learns from a teacher, and none is there; choose one, or arm = \"sft\"",
                      named[t].section_name(), objective.arm);
    check_vocabulary(*teacher, named[t].section_name(), real_ids);
  }
  if (!needs_teacher_hidden(objective)) return;
  const TeacherEngine& teacher = engines.teachers.front();
  const bool local_teacher = engines.teachers.size() == 1 && teacher.head_UX.defined() &&
                             teacher.engine->capabilities().hidden_states;
  if (!local_teacher)
    throw UserError(
        "{} needs the teacher's hidden states and LM head, which its engine ({}) does not give; choose a "
        "local teacher, or an arm over a top-k, such as routeopd or union_rkl",
        reason_for_hidden(objective), teacher.engine->name());
  if (objective.k == routing::kFullSupport && recipe.rollout.student_values == StudentValues::kEngine &&
      !engines.student->capabilities().hidden_states)
    throw UserError(
        "{} needs the student's hidden states, which its engine ({}) does not give; choose a local engine "
        "for the rollout, [rollout] student_values = \"learner\", or a number for k",
        reason_for_hidden(objective), engines.student->name());
}

}  // namespace routeopd::train
