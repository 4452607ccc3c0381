// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/inputs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "routeopd/decontamination/record.h"
#include "routeopd/model/model_files.h"
#include "routeopd/text/compatibility.h"
#include "routeopd/text/prompts.h"

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

// Positions that a prompt and its longest response need beyond those of a model; 0 where they fit.
std::int64_t positions_missing(const Prompt& prompt, const Recipe& recipe,
                               const formats::ModelConfig& config) {
  const std::int64_t response =
      recipe.sft() ? std::ssize(prompt.response_ids) : recipe.rollout.max_new_tokens;
  return std::max<std::int64_t>(0, std::ssize(prompt.ids) + response - config.max_position_embeddings);
}

void check_length(const Prompt& prompt, const Recipe& recipe, const formats::ModelConfig& config,
                  const char* who) {
  const std::int64_t missing = positions_missing(prompt, recipe, config);
  if (missing > 0)
    throw UserError(
        "{}: prompt {} has {} tokens; with the longest response it passes the {} positions of the {} by {}; "
        "try a smaller [rollout] max_new_tokens",
        recipe.data.prompts, prompt.id, prompt.ids.size(), config.max_position_embeddings, who, missing);
}

}  // namespace

void check_same_tokens(const std::string& student_path, const std::string& teacher_path) {
  if (!std::filesystem::exists(std::filesystem::path(teacher_path) / "tokenizer.json")) return;
  const std::string difference = text::check_compatibility(student_path, teacher_path).first_difference();
  if (!difference.empty())
    throw UserError("[teacher] path: the pair is not compatible ({}); `routeopd check` shows every check",
                    difference);
}

std::vector<Prompt> read_prompts(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer,
                                 const formats::ModelConfig& student, const formats::ModelConfig* teacher,
                                 std::int64_t& too_long) {
  const auto& eos = student.eos_token_ids;
  std::vector<Prompt> prompts = text::read_prompts(
      recipe.data.prompts, text::PromptTemplate(recipe.data.prompt_template, recipe.student.path), &tokenizer,
      eos.empty() ? -1 : eos.front());
  const auto passes = [&](const Prompt& prompt) {
    return positions_missing(prompt, recipe, student) > 0 ||
           (teacher != nullptr && positions_missing(prompt, recipe, *teacher) > 0);
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
  if (!recipe.sft()) {
    check_same_tokens(recipe.student.path, recipe.teacher.path);
    read.teacher = formats::read_model_config(recipe.teacher.path);
  }
  const formats::ModelConfig* const teacher = read.teacher ? &*read.teacher : nullptr;
  read.real_ids = tokenizer.real_ids();
  read.prompts = read_prompts(recipe, tokenizer, read.student, teacher, read.too_long);
  check_prompts(recipe, read.prompts, read.too_long, read.real_ids, read.student, teacher);
  read.contamination_warning = contamination_of(recipe);
  return read;
}

Inputs load_inputs(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer, RunPrompts prompts) {
  Inputs inputs;
  inputs.student = model::load_model(recipe.student.path);
  if (!recipe.sft() && recipe.teacher.engine == EngineKind::kLocal)
    inputs.teacher = model::load_model(recipe.teacher.path);
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
                   const formats::ModelConfig* teacher) {
  if (std::ssize(prompts) < recipe.rollout.prompts_per_step)
    throw UserError("[rollout] prompts_per_step: {} exceeds the {} prompts of {}{}",
                    recipe.rollout.prompts_per_step, prompts.size(), recipe.data.prompts,
                    too_long > 0 ? fmt::format(" ({} more are too long)", too_long) : "");
  for (const Prompt& prompt : prompts) {
    check_ids(prompt.ids, "prompt", prompt, recipe, real_ids);
    check_length(prompt, recipe, student, "student");
    if (teacher != nullptr) check_length(prompt, recipe, *teacher, "teacher");
    if (!recipe.sft()) continue;
    if (prompt.response_ids.empty())
      throw UserError("{}: prompt {} has no response; the sft arm learns from given ones",
                      recipe.data.prompts, prompt.id);
    check_ids(prompt.response_ids, "the response to", prompt, recipe, real_ids);
  }
}

void check_inputs(const Recipe& recipe, const Inputs& inputs) {
  check_prompts(recipe, inputs.prompts, inputs.too_long, inputs.real_ids, inputs.student.config,
                inputs.teacher ? &inputs.teacher->config : nullptr);
  if (inputs.teacher && same_model(inputs.student, *inputs.teacher)) {
    throw UserError(
        "[teacher] path: teacher and student have the same weights, so M = 0 and the loss is zero at every "
        "state: there is nothing to distil; choose another teacher");
  }
}

}  // namespace routeopd::train
