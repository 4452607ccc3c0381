// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/loaded_pair.h"

#include <algorithm>

#include "routeopd/base/hashes.h"
#include "routeopd/decontamination/normal_text.h"
#include "routeopd/lab/checker.h"
#include "routeopd/lab/task.h"

namespace routeopd::study {
namespace {

namespace fs = std::filesystem;

constexpr const char* kValidation = "validation";  // the suite's name

// The problem inside a prompt of the laboratory's template.
std::string problem_of(const lab::Task& task, const Prompt& prompt, const std::string& words,
                       const std::string& file) {
  const std::size_t before = words.find("{problem}");
  const std::size_t around = words.size() - std::string_view("{problem}").size();
  if (before != std::string::npos && prompt.text.size() >= around) {
    std::string problem = prompt.text.substr(before, prompt.text.size() - around);
    if (task.reads(problem)) return problem;
  }
  throw UserError(
      "{}: problem {} is none of the family {}; name the pair with --student, --teacher and --prompts", file,
      prompt.id, task.name());
}

// Appends those of at most `longest` ids until there are `most`. Numbered anew: every file counts from 0, and
// the number is the address of the random numbers.
void take_prompts(std::vector<Prompt>& taken, const std::vector<Prompt>& from, std::int64_t longest,
                  std::int64_t most) {
  for (const Prompt& prompt : from) {
    if (std::ssize(taken) >= most) return;
    if (std::ssize(prompt.ids) > longest) continue;
    taken.push_back(prompt);
    taken.back().number = static_cast<std::uint32_t>(taken.size() - 1);
  }
}

// 0: all of them.
void keep_first(eval::Suite& suite, std::int64_t problems) {
  if (problems > 0 && problems < std::ssize(suite.prompts))
    suite.prompts.resize(static_cast<std::size_t>(problems));
}

// Of the problem, however it is asked.
std::string hash_of(const Prompt& prompt) {
  const std::string& problem = prompt.problem.empty() ? prompt.text : prompt.problem;
  return sha256(decontamination::normal_text(problem).text);
}

// A rate that was chosen by a problem of a suite, or by one that is trained on, is no fair one. `chosen_by`
// has ids by hash_of().
void check_apart(const Json& chosen_by, const std::string& file, const std::vector<eval::Suite>& suites,
                 const std::vector<Prompt>& trained) {
  if (chosen_by.empty()) return;
  const auto check = [&](const std::vector<Prompt>& others, const std::string& where) {
    for (const Prompt& other : others) {
      const auto same = chosen_by.find(hash_of(other));
      if (same != chosen_by.end())
        throw UserError(
            "{}: validation problem {} is problem {} of {}, which a learning rate must not be chosen by; "
            "take it out of one of them",
            file, shown(*same), other.id, where);
    }
  };
  for (const eval::Suite& suite : suites) check(suite.prompts, suite.file);
  check(trained, "the training prompts");
}

}  // namespace

LoadedPair::LoadedPair(const StudyPair& pair, const StudyOptions& options, const train::Recipe& recipe,
                       const Json& chosen_by)
    : pair_(pair), tokenizer_(pair.student), recipe_(train::resolved(recipe)) {
  train::Inputs inputs = train::load_inputs(recipe_, tokenizer_);
  train::check_inputs(recipe_, inputs);
  base_ = inputs.student;
  teacher_ = inputs.teachers.front().model.value();
  prompts_ = std::move(inputs.prompts);
  too_long_ = inputs.too_long;
  contamination_warning_ = inputs.contamination_warning;
  const std::int64_t longest =
      std::min(base_.config.max_position_embeddings, teacher_.config.max_position_embeddings) -
      options.max_new;
  const eval::Protocol protocol = run::protocol_of(recipe_);
  std::vector<eval::Suite> suites;
  for (const auto& [name, path] : pair.suites) {
    eval::Suite& suite =
        suites.emplace_back(eval::read_suite(name, path, protocol, pair.student, tokenizer_));
    take_prompts(bank_prompts_, suite.prompts, longest, options.states);
    if (pair.family.empty()) continue;
    const lab::Task& task = lab::task_named(pair.family);
    for (const Prompt& prompt : suite.prompts)
      problems_[prompt.id] = problem_of(task, prompt, protocol.prompt_template, path);
  }
  take_prompts(bank_prompts_, prompts_, longest, options.states);
  if (!pair.validation.empty() && options.tuned()) {
    eval::Protocol trial = protocol;
    trial.n = options.tune_samples;
    eval::Suite suite = eval::read_suite(kValidation, pair.validation, trial, pair.student, tokenizer_);
    for (const Prompt& prompt : suite.prompts) {
      validation_problems_[hash_of(prompt)] = prompt.id;
      if (!pair.family.empty())
        problem_of(lab::task_named(pair.family), prompt, protocol.prompt_template, pair.validation);
    }
    check_apart(validation_problems_, pair.validation, suites, prompts_);
    keep_first(suite, options.tune_problems);
    validation_.emplace(trial, std::vector{std::move(suite)}, tokenizer_);
  }
  check_apart(chosen_by, options.rates, suites, prompts_);
  for (eval::Suite& suite : suites) keep_first(suite, options.problems);
  evaluator_.emplace(protocol, std::move(suites), tokenizer_);
}

train::Inputs LoadedPair::inputs() const {
  train::Inputs inputs;
  inputs.student = model::clone_model(base_);
  inputs.teachers.push_back({.name = "", .config = teacher_.config, .model = teacher_});
  inputs.real_ids = tokenizer_.real_ids();
  inputs.prompts = prompts_;
  inputs.too_long = too_long_;
  inputs.contamination_warning = contamination_warning_;
  inputs.tokenizer = &tokenizer_;
  return inputs;
}

double LoadedPair::evaluate(const fs::path& directory, const model::Model& student, const Json& identity,
                            const eval::EvalWatch& watch) const {
  const Json summary = evaluator_->evaluate(directory, student, identity, watch);
  label(directory);
  return summary["avg"].get<double>();
}

void LoadedPair::label(const fs::path& directory) const {
  if (!pair_.family.empty() && !fs::exists(directory / "labels.jsonl"))
    lab::label_directory(directory, lab::task_named(pair_.family), problems_);
}

}  // namespace routeopd::study
