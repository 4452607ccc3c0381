// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/loaded_pair.h"

#include <algorithm>

#include "routeopd/engine/local_engine.h"
#include "routeopd/eval/eval_directory.h"
#include "routeopd/lab/checker.h"

namespace routeopd::study {
namespace {

namespace fs = std::filesystem;

// Nothing is tuned for an arm: its settings are all that differs.
train::Recipe shared_recipe(const StudyPair& pair, const StudyOptions& options) {
  train::Recipe recipe;
  recipe.student.path = pair.student;
  recipe.teacher.path = pair.teacher;
  recipe.data.prompts = pair.prompts;
  recipe.data.prompt_template = options.prompt_template;
  recipe.rollout.prompts_per_step = options.prompts_per_step;
  recipe.rollout.n = options.n;
  recipe.rollout.max_new_tokens = options.max_new;
  recipe.optimizer.lr = options.lr;
  recipe.train.steps = options.steps;
  recipe.checkpoint.every = options.save_every;
  recipe.checkpoint.keep = 0;  // the study removes those it does not need
  recipe.eval.suites = pair.suites;
  recipe.eval.n = options.samples;
  recipe.eval.max_new_tokens = options.max_new;
  recipe.probe.states = options.states;
  return train::resolved(recipe);
}

eval::Protocol protocol_of(const train::Recipe& recipe) {
  eval::Protocol protocol;
  protocol.n = recipe.eval.n;
  protocol.temperature = recipe.eval.temperature;
  protocol.top_p = recipe.eval.top_p;
  protocol.max_new_tokens = recipe.eval.max_new_tokens;
  protocol.prompt_template = recipe.data.prompt_template;
  return protocol;
}

// The problem inside a prompt of the laboratory's template.
lab::Problem problem_of(const Prompt& prompt, const std::string& words, const std::string& file) {
  const std::size_t before = words.find("{problem}");
  const std::size_t around = words.size() - std::string_view("{problem}").size();
  if (before != std::string::npos && prompt.text.size() >= around) {
    if (auto problem =
            lab::parse_problem(std::string_view(prompt.text).substr(before, prompt.text.size() - around)))
      return *problem;
  }
  throw UserError(
      "{}: problem {} is none of the laboratory's; name the pair with --student, --teacher and --prompts",
      file, prompt.id);
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

}  // namespace

LoadedPair::LoadedPair(const StudyPair& pair, const StudyOptions& options)
    : pair_(pair),
      tokenizer_(pair.student),
      recipe_(shared_recipe(pair, options)),
      protocol_(protocol_of(recipe_)) {
  train::Inputs inputs = train::load_inputs(recipe_, tokenizer_);
  train::check_inputs(recipe_, inputs);
  base_ = inputs.student;
  teacher_ = *inputs.teacher;
  prompts_ = std::move(inputs.prompts);
  too_long_ = inputs.too_long;
  unchecked_ = inputs.contamination_warning;
  const std::int64_t longest =
      std::min(base_.config.max_position_embeddings, teacher_.config.max_position_embeddings) -
      options.max_new;
  for (const auto& [name, path] : pair.suites) {
    eval::Suite& suite =
        suites_.emplace_back(eval::read_suite(name, path, protocol_, pair.student, tokenizer_));
    take_prompts(bank_prompts_, suite.prompts, longest, options.states);
    if (options.problems > 0 && options.problems < std::ssize(suite.prompts))
      suite.prompts.resize(static_cast<std::size_t>(options.problems));
    if (!pair.laboratory) continue;
    for (const Prompt& prompt : suite.prompts)
      problems_[prompt.id] = problem_of(prompt, protocol_.prompt_template, path);
  }
  take_prompts(bank_prompts_, prompts_, longest, options.states);
}

train::Inputs LoadedPair::inputs() const {
  train::Inputs inputs;
  inputs.student = model::clone_model(base_);
  inputs.teacher = teacher_;
  inputs.real_ids = tokenizer_.real_ids();
  inputs.prompts = prompts_;
  inputs.too_long = too_long_;
  inputs.contamination_warning = unchecked_;
  inputs.tokenizer = &tokenizer_;
  return inputs;
}

double LoadedPair::evaluate(const fs::path& directory, const model::Model& student, const Json& identity,
                            const eval::EvalWatch& watch) const {
  const Json protocol = eval::protocol_json(identity, protocol_, suites_);
  if (eval::grade_again(directory, suites_, protocol_, tokenizer_, identity)) {
    std::error_code ignored;
    fs::remove(directory / "labels.jsonl", ignored);  // they go with the grades
  }
  std::optional<Json> summary = eval::finished_evaluation(directory, protocol);
  if (!summary) {
    // Neither whole nor begun: something of it was removed, and the rest cannot be resumed.
    std::error_code ignored;
    if (!fs::exists(directory / "protocol.json", ignored)) fs::remove_all(directory, ignored);
    engine::LocalEngine engine(student, tokenizer_.real_ids());
    summary = eval::evaluate_into(directory, engine, suites_, protocol_, tokenizer_, identity, watch).summary;
  }
  if (pair_.laboratory && !fs::exists(directory / "labels.jsonl")) lab::label_directory(directory, problems_);
  return (*summary)["avg"].get<double>();
}

}  // namespace routeopd::study
