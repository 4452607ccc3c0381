// What a run reads, and whether it fits together: everything that can be refused before the run directory is
// made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "routeopd/formats/model_config.h"
#include "routeopd/model/model.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/recipe.h"
#include "routeopd/types/prompt.h"

namespace routeopd::train {

struct TeacherInput {
  std::string name;  // RunTeacher::name
  formats::ModelConfig config;
  std::optional<model::Model> model;  // none where its weights are elsewhere
};

struct Inputs {
  model::Model student;
  std::vector<TeacherInput> teachers;  // in the order of Recipe::run_teachers(); none for the sft arm
  std::int32_t real_ids = 0;
  std::vector<Prompt> prompts;
  std::int64_t too_long = 0;                        // prompts that were skipped
  std::string contamination_warning;                // contamination_of() the recipe
  const tokenizer::Tokenizer* tokenizer = nullptr;  // for rollouts.jsonl
};

// What is known before any weight is read: the configurations of all models, and the prompts.
struct RunPrompts {
  formats::ModelConfig student;
  std::vector<formats::ModelConfig> teachers;  // in the order of Recipe::run_teachers()
  std::int32_t real_ids = 0;
  std::vector<Prompt> prompts;
  std::int64_t too_long = 0;          // prompts that were skipped
  std::string contamination_warning;  // contamination_of() the recipe
};

// Reads and checks them. Throws UserError when something is missing, the tokenizers differ, or
// check_prompts() refuses.
RunPrompts read_run_prompts(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer);

// Loads the weights that the recipe names; those of a teacher on a server stay there. Throws UserError when
// something is missing.
Inputs load_inputs(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer, RunPrompts prompts);

// Both in turn.
Inputs load_inputs(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer);

// The recipe's prompts, each with its teacher. Those that exceed the positions of the student, or of that
// teacher with its own prompt, with the longest response are skipped and counted; where none would be left,
// all stay, and check_inputs() says why they cannot.
std::vector<Prompt> read_prompts(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer,
                                 const formats::ModelConfig& student,
                                 std::span<const formats::ModelConfig> teachers, std::int64_t& too_long);

// A warning about the recipe's prompts: that they were never checked against the test sets, changed since, or
// were not checked against a suite of [eval]. Empty where `routeopd decontaminate` answered for them.
std::string contamination_of(const Recipe& recipe);

// Throws UserError for prompts that the recipe cannot run on: too few, ids or lengths out of range, no
// response for sft.
void check_prompts(const Recipe& recipe, const std::vector<Prompt>& prompts, std::int64_t too_long,
                   std::int32_t real_ids, const formats::ModelConfig& student,
                   std::span<const formats::ModelConfig> teachers);

// Two models speak of the same ids only when their tokenizers agree. A teacher directory without one is
// trusted. `section` names the teacher in the message.
void check_same_tokens(const std::string& student_path, const std::string& teacher_path,
                       const std::string& section = "teacher");

// All of this for what was loaded; a teacher equal to the student is refused too, unless a prompt of its own
// makes it differ.
void check_inputs(const Recipe& recipe, const Inputs& inputs);

}  // namespace routeopd::train
