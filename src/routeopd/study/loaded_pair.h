// A study's pair in memory: what all of its runs share. Loaded once; a run gets a copy of the student's
// weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "routeopd/model/model.h"
#include "routeopd/run/watched_run.h"
#include "routeopd/study/study_options.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/inputs.h"

namespace routeopd::study {

class LoadedPair {
 public:
  // `recipe` is shared_recipe() of both. Throws UserError as train::load_inputs() does, and for problems that
  // are not the laboratory's where they should be.
  // `chosen_by` are the problems that a record of tuning was made with, as validation_problems() tells them.
  LoadedPair(const StudyPair& pair, const StudyOptions& options, const train::Recipe& recipe,
             const Json& chosen_by = Json::object());
  LoadedPair(const LoadedPair&) = delete;
  LoadedPair& operator=(const LoadedPair&) = delete;

  const model::Model& base() const { return base_; }
  const model::Model& teacher() const { return teacher_; }
  const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }
  const std::vector<eval::Suite>& suites() const { return evaluator_->suites(); }
  const run::SuiteEvaluator& evaluator() const { return *evaluator_; }
  // On validation problems: what learning rates are chosen by. Knows no problem of a suite.
  const run::SuiteEvaluator& validation() const { return validation_.value(); }
  // All of their file, ids by the SHA-256 of the problem, whatever the template, however it is capitalised,
  // spaced or punctuated.
  const Json& validation_problems() const { return validation_problems_; }
  const std::vector<Prompt>& prompts() const { return prompts_; }

  // What the states of a bank are drawn from: the suites' problems, all of them whatever `problems` says,
  // then training prompts. At most as many as there are to be states: every answer has one.
  const std::vector<Prompt>& bank_prompts() const { return bank_prompts_; }

  // Of a run that begins: the starting student's own copy, the teacher shared.
  train::Inputs inputs() const;

  // The recipe of a run but for its arm, learning rate, seed and directory.
  const train::Recipe& recipe() const { return recipe_; }

  // SuiteEvaluator::evaluate() and label(). Returns the average.
  double evaluate(const std::filesystem::path& directory, const model::Model& student, const Json& identity,
                  const eval::EvalWatch& watch = {}) const;

  // Labels the responses of an eval directory, unless it has labels, where the checker can read them.
  void label(const std::filesystem::path& directory) const;

 private:
  StudyPair pair_;
  tokenizer::Tokenizer tokenizer_;
  train::Recipe recipe_;
  model::Model base_, teacher_;
  std::vector<Prompt> prompts_, bank_prompts_;
  std::int64_t too_long_ = 0;
  std::string contamination_warning_;
  std::optional<run::SuiteEvaluator> evaluator_, validation_;
  Json validation_problems_ = Json::object();
  std::unordered_map<std::string, std::string> problems_;  // of the laboratory: texts by id
};

}  // namespace routeopd::study
