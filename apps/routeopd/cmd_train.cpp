// routeopd train: a distillation run from a recipe.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>

#include "command.h"
#include "progress.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/eval/evaluate.h"
#include "routeopd/probe/mismatch.h"
#include "routeopd/text/tokenizer.h"
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
  const auto number = [&](const char* name) { return metrics.value(name, 0.0); };
  std::string note = fmt::format("loss {:.5f}", number("loss"));
  if (metrics.contains("mass"))
    note += fmt::format(", mass {:.4f}, routed {:.0f} %", number("mass"), 100 * number("routed_share"));
  return note + fmt::format(", {:.0f} tokens/s", number("tokens") / metrics["time"]["total"].get<double>());
}

bool due(std::int64_t every, std::int64_t step, const train::Recipe& recipe) {
  return every > 0 && (step % every == 0 || step == recipe.train.steps);
}

// The recipe's suites on the student as it is now, under RUN/eval/step_N.
class Evaluator {
 public:
  Evaluator(const train::Recipe& recipe, const text::Tokenizer& tokenizer, const model::Model& student)
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

  void after(std::int64_t step) {
    if (!due(recipe_.eval.every, step, recipe_)) return;
    const auto directory = std::filesystem::path(recipe_.out) / "eval" / fmt::format("step_{}", step);
    std::filesystem::remove_all(directory);  // of a run that went on from an earlier step
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
  const text::Tokenizer& tokenizer_;
  const model::Model& student_;
  eval::Protocol protocol_;
  std::vector<eval::Suite> suites_;
  std::string note_;
};

// The mismatch mass on states of the starting student, in RUN/probe.jsonl: {"step", "mass"}, from step 0.
class Prober {
 public:
  // Before training, while the student is the one that the recipe names.
  Prober(const train::Recipe& recipe, const train::Inputs& inputs) : recipe_(recipe), inputs_(inputs) {
    if (recipe.probe.every == 0) return;
    engine::LocalEngine base(inputs.student, inputs.real_ids), teacher(*inputs.teacher, inputs.real_ids);
    const auto prompts = std::min<std::size_t>(inputs.prompts.size(), kPrompts);
    bank_.emplace(base, teacher, std::span(inputs.prompts).first(prompts), recipe.probe.states,
                  recipe.rollout.max_new_tokens, recipe.objective, recipe.seed);
    base_mass_ = bank_->mass(base);
  }

  void after(std::int64_t step) {
    if (!due(recipe_.probe.every, step, recipe_)) return;
    const auto path = std::filesystem::path(recipe_.out) / "probe.jsonl";
    std::ofstream file(path, std::ios::app);
    if (file.tellp() == 0) file << Json{{"step", 0}, {"mass", base_mass_}}.dump() << '\n';
    engine::LocalEngine student(inputs_.student, inputs_.real_ids);
    const double mass = bank_->mass(student);
    file << Json{{"step", step}, {"mass", mass}}.dump() << '\n' << std::flush;
    if (!file) throw UserError("{}: cannot be written; is the disk full?", path.string());
    note_ = fmt::format(", mass on fixed states {:.4f} ({:+.0f} %)", mass, 100 * (mass / base_mass_ - 1));
  }

  const std::string& note() const { return note_; }

 private:
  static constexpr std::size_t kPrompts = 64;
  const train::Recipe& recipe_;
  const train::Inputs& inputs_;
  std::optional<probe::MismatchBank> bank_;
  double base_mass_ = 0;
  std::string note_;
};

void show_plan(const train::Recipe& recipe, const text::Tokenizer& tokenizer, bool json) {
  const train::Plan plan = train::plan_run(recipe, tokenizer);
  std::cout << (json ? train::plan_json(plan).dump() + "\n" : train::plan_text(plan, recipe));
}

void run_train(const TrainArguments& arguments) {
  train::Recipe recipe = train::resolved(train::read_recipe(arguments.recipe, arguments.settings));
  if (!arguments.out.empty()) recipe.out = arguments.out;
  train::check_recipe(recipe);
  if (arguments.show_recipe) {
    std::cout << train::recipe_text(recipe);
    return;
  }
  const text::Tokenizer tokenizer(recipe.student.path);
  if (arguments.dry_run) return show_plan(recipe, tokenizer, arguments.output.json);
  train::Inputs inputs = train::load_inputs(recipe, tokenizer);
  if (inputs.too_long > 0 && !arguments.output.quiet)
    std::cerr << fmt::format("{} prompts are too long for the models and were left out; {} are left\n",
                             inputs.too_long, inputs.prompts.size());
  train::check_inputs(recipe, inputs);
  Evaluator evaluator(recipe, tokenizer, inputs.student);
  Prober prober(recipe, inputs);
  Json last = Json::object();
  {
    Progress progress("train", recipe.train.steps, arguments.output.quiet);
    const auto watch = [&](std::int64_t step, const Json& metrics) {
      last = metrics;
      evaluator.after(step);
      prober.after(step);
      progress.update(step, step_note(metrics) + prober.note() + evaluator.note());
    };
    train::train(recipe, inputs, watch, arguments.resume ? train::Start::kResume : train::Start::kNew);
  }
  if (last.empty() && !arguments.output.quiet)
    std::cerr << fmt::format("{}: all {} steps were done already\n", recipe.out, recipe.train.steps);
  const std::string checkpoint = fmt::format("{}/checkpoints/step_{}", recipe.out, recipe.train.steps);
  if (arguments.output.json) {
    std::cout << Json{{"run", recipe.out}, {"checkpoint", checkpoint}, {"last", last}}.dump() << '\n';
  } else if (!arguments.output.quiet && !last.empty()) {
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
