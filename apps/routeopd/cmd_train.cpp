// routeopd train: a distillation run from a recipe.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "progress.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/eval/evaluate.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/probe/probe_log.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/plan.h"
#include "routeopd/train/train.h"

namespace routeopd::app {
namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> settings;
  std::string out;
  bool resume = false;
  bool dry_run = false;
  bool show_recipe = false;
  OutputFlags output;
};

std::string step_note(const Json& metrics) {
  if (metrics.empty()) return "";
  const auto number = [&](const char* name) {
    const Json value = metrics.value(name, Json());
    return value.is_number() ? value.get<double>() : std::nan("");
  };
  std::string note = fmt::format("loss {:.5f}", number("loss"));
  if (!std::isnan(number("mass")))
    note += fmt::format(", mass {:.4f}, routed {:.0f} %", number("mass"), 100 * number("routed_share"));
  const double seconds = metrics.value("time", Json::object()).value("total", 0.0);
  return seconds > 0 ? note + fmt::format(", {:.0f} tokens/s", number("tokens") / seconds) : note;
}

bool due(std::int64_t every, std::int64_t step, const train::Recipe& recipe) {
  return every > 0 && (step % every == 0 || step == recipe.train.steps);
}

// The recipe's suites on the student as it is now, under RUN/eval/step_N.
class Evaluator {
 public:
  Evaluator(const train::Recipe& recipe, const tokenizer::Tokenizer& tokenizer, const model::Model& student)
      : recipe_(recipe), tokenizer_(tokenizer), student_(student) {
    if (recipe.eval.every == 0) return;
    protocol_.n = recipe.eval.n;
    protocol_.temperature = recipe.eval.temperature;
    protocol_.top_p = recipe.eval.top_p;
    protocol_.max_new_tokens = recipe.eval.max_new_tokens;
    protocol_.prompt_template = recipe.data.prompt_template;
    for (const auto& [name, path] : recipe.eval.suites)
      suites_.push_back(eval::read_suite(name, path, protocol_, recipe.student.path, tokenizer));
  }

  // Nothing where it was done already: the step that a run goes on from.
  void after(std::int64_t step) {
    if (!due(recipe_.eval.every, step, recipe_)) return;
    const auto directory = std::filesystem::path(recipe_.out) / "eval" / fmt::format("step_{}", step);
    if (std::filesystem::exists(directory / "summary.json")) return;
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);  // not finished, and perhaps of other settings
    engine::LocalEngine engine(student_, tokenizer_.real_ids());
    const Json summary = eval::evaluate_into(directory, engine, suites_, protocol_, tokenizer_,
                                             {{"path", recipe_.out}, {"step", step}})
                             .summary;
    note_ =
        fmt::format(", Avg@{} {:.1f} % at step {}", protocol_.n, 100 * summary["avg"].get<double>(), step);
  }

  const std::string& note() const { return note_; }

 private:
  const train::Recipe& recipe_;
  const tokenizer::Tokenizer& tokenizer_;
  const model::Model& student_;
  eval::Protocol protocol_;
  std::vector<eval::Suite> suites_;
  std::string note_;
};

// A run that is named by its own recipe goes on where that lies, also after it was moved.
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

void show_plan(const train::Recipe& recipe, const tokenizer::Tokenizer& tokenizer, bool json) {
  const train::Plan plan = train::plan_run(recipe, tokenizer);
  std::cout << (json ? train::plan_json(plan).dump() + "\n" : train::plan_text(plan, recipe));
}

void run_train(const TrainArguments& arguments) {
  train::Recipe recipe = read_recipe(arguments);
  const bool only_looks = arguments.show_recipe || arguments.dry_run;
  if (only_looks && recipe.out.empty()) recipe.out = "runs/unnamed";
  train::check_recipe(recipe);
  if (arguments.show_recipe) {
    std::cout << train::recipe_text(recipe);
    return;
  }
  const auto tokenizer_of = [&] { return std::make_unique<tokenizer::Tokenizer>(recipe.student.path); };
  const auto held = formats::naming("[student] path", tokenizer_of);
  const tokenizer::Tokenizer& tokenizer = *held;
  if (arguments.dry_run) return show_plan(recipe, tokenizer, arguments.output.json);
  train::Inputs inputs = train::load_inputs(recipe, tokenizer);
  if (inputs.too_long > 0 && !arguments.output.quiet)
    std::cerr << fmt::format("prompts too long for the models: {} left out, {} stay\n", inputs.too_long,
                             inputs.prompts.size());
  train::check_inputs(recipe, inputs);
  if (!inputs.contamination_warning.empty() && !arguments.output.quiet)
    std::cerr << fmt::format("warning: {}\n", inputs.contamination_warning);
  Evaluator evaluator(recipe, tokenizer, inputs.student);
  probe::ProbeLog prober(recipe, inputs);
  Json last = Json::object();
  std::int64_t made = 0;
  {
    Progress progress("train", recipe.train.steps, arguments.output.quiet);
    const auto watch = [&](std::int64_t step, const Json& metrics) {
      last = metrics;
      evaluator.after(step);
      prober.after(step);
      progress.update(step, fmt::format("step {} of {}, {}{}{}", step, recipe.train.steps, step_note(metrics),
                                        prober.note(), evaluator.note()));
    };
    try {
      made =
          train::train(recipe, inputs, watch, arguments.resume ? train::Start::kResume : train::Start::kNew);
    } catch (const Interrupted&) {
      if (!last.empty() && !arguments.output.quiet)
        std::cerr << fmt::format(
            "step {} is saved in {}/checkpoints; the same command with --resume goes on\n",
            last["step"].get<std::int64_t>(), recipe.out);
      throw;
    }
  }
  if (made == 0 && !arguments.output.quiet)
    std::cerr << fmt::format("{}: all {} steps were done already\n", recipe.out, recipe.train.steps);
  const std::string checkpoint = fmt::format("{}/checkpoints/step_{}", recipe.out, recipe.train.steps);
  if (arguments.output.json) {
    std::cout << Json{{"run", recipe.out}, {"checkpoint", checkpoint}, {"last", last}}.dump() << '\n';
  } else if (!arguments.output.quiet && made > 0) {
    std::cerr << fmt::format("{} steps, last {}; the student is in {}\n", recipe.train.steps, step_note(last),
                             checkpoint);
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
  app.add_flag("--resume", arguments->resume,
               "Go on from the newest checkpoint that verifies, to the same bits; without one, begin");
  app.add_flag("--dry-run", arguments->dry_run,
               "Print what the run needs (memory by part, tokens, teacher calls), and stop");
  app.add_flag("--show-recipe", arguments->show_recipe, "Print the complete recipe and stop");
  add_output_flags(app, arguments->output);
  app.footer(
      "Writes recipe.toml, metrics.jsonl, events.out.tfevents.* (TensorBoard), log.txt and "
      "checkpoints/step_N "
      "(Hugging Face\ndirectories) to the run directory; with [probe] every = N probe.jsonl, with [eval] "
      "every = N "
      "eval/step_N, which\n`routeopd compare` reads. Ctrl-C and SIGTERM let the step end and save it; a "
      "second one "
      "ends at once.\n\n"
      "Examples:\n"
      "  routeopd train recipes/lab.toml --out runs/first --set objective.arm=union_rkl --set "
      "train.steps=20\n"
      "  routeopd train recipes/lab.toml --out runs/first --set objective.arm=union_rkl --set train.steps=20 "
      "--resume\n"
      "  routeopd train recipes/smollm2.toml --dry-run");
  app.callback([arguments] { run_train(*arguments); });
}

}  // namespace routeopd::app
