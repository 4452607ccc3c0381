// What a run reads, and whether it fits together: everything that can be refused before the run directory is made.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "routeopd/text/compatibility.h"
#include "routeopd/text/prompts.h"
#include "routeopd/train/train.h"

namespace routeopd::train {
namespace {

// Two models speak of the same ids only when their tokenizers agree. A teacher directory without one is taken at its word.
void check_same_tokens(const std::string& student_path, const std::string& teacher_path) {
  if (!std::filesystem::exists(std::filesystem::path(teacher_path) / "tokenizer.json")) return;
  const std::string difference = text::check_compatibility(student_path, teacher_path).first_difference();
  if (!difference.empty())
    throw UserError("[teacher] path: the pair is not compatible ({}); `routeopd check` shows every check",
                    difference);
}

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

void check_length(const Prompt& prompt, const Recipe& recipe, const model::Model& model, const char* who) {
  const std::int64_t response =
      recipe.sft() ? std::ssize(prompt.response_ids) : recipe.rollout.max_new_tokens;
  const std::int64_t positions = model.config.max_position_embeddings;
  if (std::ssize(prompt.ids) + response > positions)
    throw UserError(
        "{}: prompt {} has {} tokens; with a response of {} it passes the {} positions of the {}; try a "
        "smaller [rollout] max_new_tokens",
        recipe.data.prompts, prompt.id, prompt.ids.size(), response, positions, who);
}

}  // namespace

Inputs load_inputs(const Recipe& recipe, const text::Tokenizer& tokenizer) {
  Inputs inputs;
  inputs.student = model::load_model(recipe.student.path);
  if (!recipe.sft()) {
    check_same_tokens(recipe.student.path, recipe.teacher.path);
    inputs.teacher = model::load_model(recipe.teacher.path);
  }
  inputs.real_ids = tokenizer.real_ids();
  inputs.tokenizer = &tokenizer;
  const auto& eos = inputs.student.config.eos_token_ids;
  inputs.prompts = text::read_prompts(recipe.data.prompts,
                                      text::PromptTemplate(recipe.data.prompt_template, recipe.student.path),
                                      &tokenizer, eos.empty() ? -1 : eos.front());
  return inputs;
}

void check_inputs(const Recipe& recipe, const Inputs& inputs) {
  const auto prompts = std::ssize(inputs.prompts);
  if (prompts < recipe.rollout.prompts_per_step)
    throw UserError("[rollout] prompts_per_step: {} exceeds the {} prompts of {}",
                    recipe.rollout.prompts_per_step, prompts, recipe.data.prompts);
  for (const Prompt& prompt : inputs.prompts) {
    check_ids(prompt.ids, "prompt", prompt, recipe, inputs.real_ids);
    check_length(prompt, recipe, inputs.student, "student");
    if (inputs.teacher) check_length(prompt, recipe, *inputs.teacher, "teacher");
    if (!recipe.sft()) continue;
    if (prompt.response_ids.empty())
      throw UserError("{}: prompt {} has no response; the sft arm learns from given ones",
                      recipe.data.prompts, prompt.id);
    check_ids(prompt.response_ids, "the response to", prompt, recipe, inputs.real_ids);
  }
  if (inputs.teacher && same_model(inputs.student, *inputs.teacher)) {
    throw UserError(
        "[teacher] path: teacher and student have the same weights, so M = 0 and the loss is zero at every "
        "state: there is nothing to distil; choose another teacher");
  }
}

}  // namespace routeopd::train
