// routeopd train: a distillation run from a recipe.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>

#include "command.h"
#include "progress.h"
#include "rank_checks.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/run/plan.h"
#include "routeopd/run/watched_run.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::app {
namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> settings;
  std::string out;
  bool resume = false;
  bool allow_gaps = false;
  bool dry_run = false;
  bool show_recipe = false;
  bool allow_overcommit = false;
  OutputFlags output;
};

// A run that is named by its own recipe.toml is resumed where that file lies, also after it was moved.
train::Recipe read_recipe(const TrainArguments& arguments) {
  train::Recipe recipe = train::resolved(train::read_recipe(arguments.recipe, arguments.settings));
  const std::filesystem::path file = arguments.recipe;
  if (!arguments.out.empty()) {
    recipe.out = arguments.out;
  } else if (arguments.resume && file.filename() == "recipe.toml" &&
             std::filesystem::exists(file.parent_path() / "metrics.jsonl")) {
    recipe.out = file.parent_path().string();
  }
  return recipe;
}

train::Start start_of(const TrainArguments& arguments) {
  if (!arguments.resume) return train::Start::kNew;
  return arguments.allow_gaps ? train::Start::kResumeWithGaps : train::Start::kResume;
}

struct TrainResult {
  StepMetrics last;  // of the last step
  std::int64_t steps_made = 0;
};

// What a run is made of, read and checked before its first step. It stays where it is: engines refer to the
// models of its inputs.
struct Prepared {
  train::Recipe recipe;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  train::Inputs inputs;
  std::unique_ptr<run::SuiteEvaluator> evaluator;
  train::Engines engines;
};

TrainResult train_with_progress(Prepared& run, const TrainArguments& arguments) {
  const train::Recipe& recipe = run.recipe;
  ::routeopd::run::WatchedRun watched(recipe, run.inputs, *run.evaluator, std::move(run.engines),
                                      ranks::world());
  TrainResult result;
  StepMetrics& last = result.last;
  Progress progress("train", recipe.train.steps, arguments.output.quiet);
  const auto show = [&](const std::string& more) {
    progress.update(last.step, fmt::format("step {} of {}, {}{}{}", last.step, recipe.train.steps,
                                           note_of(last), watched.note(), more));
  };
  run::RunEvents events;
  events.stepped = [&](const StepMetrics& metrics) {
    last = metrics;
    show("");
  };
  events.evaluating = [&](std::int64_t, const eval::EvalProgress& at) {
    show(fmt::format(", evaluating: {} of {} responses", at.done, at.total));
  };
  events.measured = [&](std::int64_t, double) { show(""); };
  try {
    result.steps_made = watched.train(start_of(arguments), events);
  } catch (const Interrupted&) {
    if (last.step > 0 && !arguments.output.quiet)
      std::cerr << fmt::format(
          "step {} is saved in {}/checkpoints; the same command with --resume continues\n", last.step,
          recipe.out);
    throw;
  }
  return result;
}

// Null where the command only looks: what it shows is printed.
std::unique_ptr<Prepared> prepared(const TrainArguments& arguments) {
  auto run = std::make_unique<Prepared>();
  train::Recipe& recipe = run->recipe;
  recipe = read_recipe(arguments);
  const bool only_looks = arguments.show_recipe || arguments.dry_run;
  const bool leads = ranks::world().leads();
  if (only_looks && recipe.out.empty()) recipe.out = "runs/unnamed";
  train::check_recipe(recipe);
  if (arguments.show_recipe) {
    if (leads) std::cout << train::recipe_text(recipe);
    return nullptr;
  }
  if (leads && !arguments.dry_run) train::RunDirectory::check_place(recipe, start_of(arguments));
  const auto tokenizer_of = [&] { return std::make_unique<tokenizer::Tokenizer>(recipe.student.path); };
  run->tokenizer = formats::naming("[student] path", tokenizer_of);
  train::RunPrompts prompts = train::read_run_prompts(recipe, *run->tokenizer);
  run::Plan plan = run::plan_run(recipe, prompts);
  plan.available_bytes /= ranks_here();
  if (arguments.dry_run) {
    if (leads)
      std::cout << (arguments.output.json ? run::plan_json(plan).dump() + "\n"
                                          : run::plan_text(plan, recipe));
    return nullptr;
  }
  if (!arguments.allow_overcommit) run::check_memory(plan);
  run->inputs = train::load_inputs(recipe, *run->tokenizer, std::move(prompts));
  train::check_inputs(recipe, run->inputs);
  run->evaluator = std::make_unique<run::SuiteEvaluator>(recipe, *run->tokenizer);
  run->engines = train::make_engines(recipe, run->inputs, ranks::world());
  return run;
}

void run_train(TrainArguments& arguments) {
  ranks::Group& group = ranks::world();
  if (!group.leads()) arguments.output = {.quiet = true, .json = false};
  std::unique_ptr<Prepared> run;
  ranks::together(group, [&] { run = prepared(arguments); });
  if (!run) return;
  const train::Recipe& recipe = run->recipe;
  const train::Inputs& inputs = run->inputs;
  check_ranks_agree(group, recipe);
  const bool speaks = !arguments.output.quiet;
  if (speaks && inputs.too_long > 0)
    std::cerr << fmt::format("prompts too long for the models: {} skipped, {} stay\n", inputs.too_long,
                             inputs.prompts.size());
  if (speaks && !inputs.contamination_warning.empty())
    std::cerr << fmt::format("warning: {}\n", inputs.contamination_warning);
  const TrainResult result = train_with_progress(*run, arguments);
  if (speaks && result.steps_made == 0)
    std::cerr << fmt::format("{}: all {} steps were done already\n", recipe.out, recipe.train.steps);
  const std::string checkpoint = fmt::format("{}/checkpoints/step_{}", recipe.out, recipe.train.steps);
  if (arguments.output.json) {
    std::cout << Json{{"run", recipe.out}, {"checkpoint", checkpoint}, {"last", json_of(result.last)}}.dump()
              << '\n';
  } else if (speaks && result.steps_made > 0) {
    std::cerr << fmt::format("{} steps, last {}; the student is in {}\n", recipe.train.steps,
                             note_of(result.last), checkpoint);
  }
}

}  // namespace

void add_train(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  app.add_option("recipe", arguments->recipe, "The run's recipe, TOML")->required();
  app.add_option("--set", arguments->settings,
                 "section.key=value, over what the recipe says; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--out", arguments->out,
                 "Run directory, over the recipe's `out`; must not exist, but for --resume");
  app.add_flag("--allow-gaps", arguments->allow_gaps,
               "With --resume: go on where metrics.jsonl lacks the lines of steps that are done");
  app.add_flag("--resume", arguments->resume,
               "Continue from the newest checkpoint that verifies, to the same bits; without one, begin");
  app.add_flag("--dry-run", arguments->dry_run,
               "Print what the run needs (memory by part, tokens, teacher calls), and stop");
  app.add_flag("--allow-overcommit", arguments->allow_overcommit,
               "Begin although the plan of --dry-run exceeds the free memory");
  app.add_flag("--show-recipe", arguments->show_recipe, "Print the complete recipe and stop");
  add_output_flags(app, arguments->output);
  app.footer(
      "Writes recipe.toml, metrics.jsonl, events.out.tfevents.* (TensorBoard), log.txt and "
      "checkpoints/step_N\n"
      "(Hugging Face directories) to the run directory; with [probe] every = N probe.jsonl, with [eval] "
      "every =\n"
      "N eval/step_N, which `routeopd compare` reads. Ctrl-C and SIGTERM let the step end and save it; a "
      "second\n"
      "one ends at once.\n\n"
      "Examples:\n"
      "  routeopd train recipes/lab.toml --out runs/first --set objective.arm=union_rkl --set "
      "train.steps=20\n"
      "  routeopd train recipes/lab.toml --out runs/first --set objective.arm=union_rkl --set train.steps=20 "
      "--resume\n"
      "  routeopd train recipes/smollm2.toml --dry-run");
  app.callback([arguments] { run_train(*arguments); });
}

}  // namespace routeopd::app
