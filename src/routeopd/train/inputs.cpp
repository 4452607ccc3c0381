// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/inputs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "routeopd/decontamination/record.h"
#include "routeopd/model/model_files.h"
#include "routeopd/text/compatibility.h"
#include "routeopd/text/prompts.h"
#include "routeopd/train/learner_device.h"

namespace routeopd::train {
namespace {

bool same_model(const model::Model& a, const model::Model& b) {
  if (a.config.model_type != b.config.model_type || !(a.config.rope == b.config.rope) ||
      a.config.rms_norm_eps != b.config.rms_norm_eps ||
      a.config.num_attention_heads != b.config.num_attention_heads)
    return false;
  const auto left = model::parameters(a), right = model::parameters(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const model::Parameter& x, const model::Parameter& y) {
                      return x.tensor.sizes() == y.tensor.sizes() &&
                             std::memcmp(x.tensor.const_data_ptr(), y.tensor.const_data_ptr(),
                                         x.tensor.nbytes()) == 0;
                    });
}

void check_ids(const std::vector<std::int32_t>& ids, const char* what, const Prompt& prompt,
               const Recipe& recipe, std::int32_t real_ids) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= real_ids)
      throw UserError("{}: {} {} has id {}, outside the tokenizer's {} ids", recipe.data.prompts, what,
                      prompt.id, id, real_ids);
  }
}

// What a model of the run reads before the responses to a prompt.
struct PromptRead {
  const std::vector<std::int32_t>* ids;
  const formats::ModelConfig* config;
  const char *what, *who;  // for messages
};

std::vector<PromptRead> readings_of(const Prompt& prompt, const formats::ModelConfig& student,
                                    std::span<const formats::ModelConfig> teachers) {
  std::vector<PromptRead> all = {{&prompt.ids, &student, "prompt", "student"}};
  if (teachers.empty()) return all;
  const formats::ModelConfig& teacher = teachers[static_cast<std::size_t>(prompt.teacher)];
  const bool own = !prompt.teacher_ids.empty();
  all.push_back({own ? &prompt.teacher_ids : &prompt.ids, &teacher,
                 own ? "the teacher's prompt of" : "prompt", "teacher"});
  return all;
}

// Positions that a prompt and its longest response need beyond those of a model; 0 where they fit.
std::int64_t positions_missing(const PromptRead& read, const Prompt& prompt, const Recipe& recipe) {
  const std::int64_t response =
      recipe.sft() ? std::ssize(prompt.response_ids) : recipe.rollout.max_new_tokens;
  return std::max<std::int64_t>(0, std::ssize(*read.ids) + response - read.config->max_position_embeddings);
}

void check_length(const PromptRead& read, const Prompt& prompt, const Recipe& recipe) {
  const std::int64_t missing = positions_missing(read, prompt, recipe);
  if (missing > 0)
    throw UserError(
        "{}: {} {} has {} tokens; with the longest response it passes the {} positions of the {} by {}; "
        "try a smaller [rollout] max_new_tokens",
        recipe.data.prompts, read.what, prompt.id, read.ids->size(), read.config->max_position_embeddings,
        read.who, missing);
}

// Whom prompts may name. A teacher's messages go through its own chat template, or the student's where its
// directory has none.
text::PromptTeachers prompt_teachers(const Recipe& recipe) {
  text::PromptTeachers teachers{.all = {}, .usual = recipe.default_teacher};
  for (const RunTeacher& teacher : recipe.run_teachers()) {
    text::PromptTemplate chat("raw", teacher.section->path);
    if (!chat.has_chat()) chat = text::PromptTemplate("raw", recipe.student.path);
    teachers.all.push_back({teacher.name, std::move(chat)});
  }
  return teachers;
}

}  // namespace

void check_same_tokens(const std::string& student_path, const std::string& teacher_path,
                       const std::string& section) {
  if (!std::filesystem::exists(std::filesystem::path(teacher_path) / "tokenizer.json")) return;
  const std::string difference = text::check_compatibility(student_path, teacher_path).first_difference();
  if (!difference.empty())
    throw UserError("[{}] path: the pair is not compatible ({}); `routeopd check` shows every check", section,
                    difference);
}

std::vector<Prompt> read_prompts(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer,
                                 const formats::ModelConfig& student,
                                 std::span<const formats::ModelConfig> teachers, std::int64_t& too_long) {
  const auto& eos = student.eos_token_ids;
  const text::PromptTeachers named = prompt_teachers(recipe);
  std::vector<Prompt> prompts = text::read_prompts(
      recipe.data.prompts, text::PromptTemplate(recipe.data.prompt_template, recipe.student.path), &tokenizer,
      eos.empty() ? -1 : eos.front(), named.all.empty() ? nullptr : &named);
  const auto passes = [&](const Prompt& prompt) {
    return std::ranges::any_of(readings_of(prompt, student, teachers), [&](const PromptRead& read) {
      return positions_missing(read, prompt, recipe) > 0;
    });
  };
  too_long = std::count_if(prompts.begin(), prompts.end(), passes);
  if (too_long == std::ssize(prompts)) {
    too_long = 0;
  } else {
    std::erase_if(prompts, passes);
  }
  return prompts;
}

RunPrompts read_run_prompts(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer) {
  RunPrompts read;
  read.student = formats::read_model_config(recipe.student.path);
  for (const RunTeacher& teacher : recipe.run_teachers()) {
    check_same_tokens(recipe.student.path, teacher.section->path, teacher.section_name());
    read.teachers.push_back(formats::read_model_config(teacher.section->path));
  }
  read.real_ids = tokenizer.real_ids();
  read.prompts = read_prompts(recipe, tokenizer, read.student, read.teachers, read.too_long);
  check_prompts(recipe, read.prompts, read.too_long, read.real_ids, read.student, read.teachers);
  read.contamination_warning = contamination_of(recipe);
  return read;
}

Inputs load_inputs(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer, RunPrompts prompts) {
  device_named(recipe.student.device);  // refused before gigabytes are read
  Inputs inputs;
  inputs.student = model::load_model(recipe.student.path);
  const std::vector<RunTeacher> teachers = recipe.run_teachers();
  for (std::size_t t = 0; t < teachers.size(); ++t) {
    TeacherInput& input = inputs.teachers.emplace_back();
    input.name = teachers[t].name;
    input.config = prompts.teachers.at(t);
    if (teachers[t].section->engine == EngineKind::kLocal)
      input.model = model::load_model(teachers[t].section->path);
  }
  inputs.real_ids = prompts.real_ids;
  inputs.tokenizer = &tokenizer;
  inputs.prompts = std::move(prompts.prompts);
  inputs.too_long = prompts.too_long;
  inputs.contamination_warning = std::move(prompts.contamination_warning);
  return inputs;
}

Inputs load_inputs(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer) {
  return load_inputs(recipe, tokenizer, read_run_prompts(recipe, tokenizer));
}

std::string contamination_of(const Recipe& recipe) {
  std::vector<std::string> suites;
  for (const auto& [name, path] : recipe.eval.suites) suites.push_back(path);
  return decontamination::contamination_warning(recipe.data.prompts, suites);
}

void check_prompts(const Recipe& recipe, const std::vector<Prompt>& prompts, std::int64_t too_long,
                   std::int32_t real_ids, const formats::ModelConfig& student,
                   std::span<const formats::ModelConfig> teachers) {
  if (std::ssize(prompts) < recipe.rollout.prompts_per_step)
    throw UserError("[rollout] prompts_per_step: {} exceeds the {} prompts of {}{}",
                    recipe.rollout.prompts_per_step, prompts.size(), recipe.data.prompts,
                    too_long > 0 ? fmt::format(" ({} more are too long)", too_long) : "");
  for (const Prompt& prompt : prompts) {
    ROUTEOPD_INVARIANT(teachers.empty() || (prompt.teacher >= 0 && prompt.teacher < std::ssize(teachers)));
    check_ids(prompt.ids, "prompt", prompt, recipe, real_ids);
    check_ids(prompt.teacher_ids, "the teacher's prompt of", prompt, recipe, real_ids);
    for (const PromptRead& read : readings_of(prompt, student, teachers)) check_length(read, prompt, recipe);
    if (!recipe.sft()) continue;
    if (prompt.response_ids.empty())
      throw UserError("{}: prompt {} has no response; the sft arm learns from given ones",
                      recipe.data.prompts, prompt.id);
    check_ids(prompt.response_ids, "the response to", prompt, recipe, real_ids);
  }
}

void check_inputs(const Recipe& recipe, const Inputs& inputs) {
  std::vector<formats::ModelConfig> configs;
  for (const TeacherInput& teacher : inputs.teachers) configs.push_back(teacher.config);
  check_prompts(recipe, inputs.prompts, inputs.too_long, inputs.real_ids, inputs.student.config, configs);
  const std::vector<RunTeacher> named = recipe.run_teachers();
  ROUTEOPD_INVARIANT(named.size() == inputs.teachers.size());
  for (std::size_t t = 0; t < named.size(); ++t) {
    const auto knows_more = [&](const Prompt& prompt) {
      return prompt.teacher == static_cast<std::int32_t>(t) && !prompt.teacher_ids.empty();
    };
    if (!inputs.teachers[t].model || std::ranges::any_of(inputs.prompts, knows_more)) continue;
    if (same_model(inputs.student, *inputs.teachers[t].model))
      throw UserError(
          "[{}] path: teacher and student have the same weights, so M = 0 and the loss is zero at every "
          "state: there is nothing to distil; choose another teacher, or give this one a prompt of its own "
          "(teacher_messages, teacher_prompt or teacher_prompt_ids in the lines of {})",
          named[t].section_name(), recipe.data.prompts);
  }
}

}  // namespace routeopd::train
