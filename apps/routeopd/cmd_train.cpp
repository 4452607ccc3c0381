// routeopd train: a distillation run from a recipe.
//
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>

#include "command.h"
#include "progress.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/eval/evaluate.h"
#include "routeopd/text/tokenizer.h"
#include "routeopd/train/train.h"

namespace routeopd::app {
namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> settings;
  std::string out;
  bool dry_run = false;
  OutputFlags output;
};

std::string step_note(const Json& metrics) {
  const auto number = [&](const char* name) { return metrics.value(name, 0.0); };
  std::string note = fmt::format("loss {:.5f}", number("loss"));
  if (metrics.contains("mass"))
    note += fmt::format(", mass {:.4f}, routed {:.0f} %", number("mass"), 100 * number("routed_share"));
  return note + fmt::format(", {:.0f} tokens/s", number("tokens") / metrics["time"]["total"].get<double>());
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
    if (recipe_.eval.every == 0 || (step % recipe_.eval.every != 0 && step != recipe_.train.steps)) return;
    engine::LocalEngine engine(student_, tokenizer_.real_ids());
    const std::filesystem::path run = recipe_.out;
    const Json summary = eval::evaluate_into(run / "eval" / fmt::format("step_{}", step), engine, suites_,
                                             protocol_, tokenizer_, {{"path", recipe_.out}, {"step", step}})
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

void run_train(const TrainArguments& arguments) {
  train::Recipe recipe = train::read_recipe(arguments.recipe, arguments.settings);
  if (!arguments.out.empty()) recipe.out = arguments.out;
  train::check_recipe(recipe);
  if (arguments.dry_run) {
    std::cout << train::recipe_text(recipe);
    return;
  }
  const text::Tokenizer tokenizer(recipe.student.path);
  train::Inputs inputs = train::load_inputs(recipe, tokenizer);
  Evaluator evaluator(recipe, tokenizer, inputs.student);
  Json last;
  {
    Progress progress("train", recipe.train.steps, arguments.output.quiet);
    train::train(recipe, inputs, [&](std::int64_t step, const Json& metrics) {
      last = metrics;
      evaluator.after(step);
      progress.update(step, step_note(metrics) + evaluator.note());
    });
  }
  const std::string checkpoint = fmt::format("{}/checkpoints/step_{}", recipe.out, recipe.train.steps);
  if (arguments.output.json) {
    std::cout << Json{{"run", recipe.out}, {"checkpoint", checkpoint}, {"last", last}}.dump() << '\n';
  } else if (!arguments.output.quiet) {
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
  app.add_option("--out", arguments->out, "Run directory, over the recipe's `out`; must not exist");
  app.add_flag("--dry-run", arguments->dry_run, "Print the complete recipe and stop");
  add_output_flags(app, arguments->output);
  app.footer(
      "Writes recipe.toml, metrics.jsonl, log.txt and checkpoints/step_N (Hugging Face directories) to the "
      "run directory.\n"
      "With [eval] every = N also eval/step_N, which `routeopd compare` reads. Ctrl-C saves the last whole "
      "step first.\n\n"
      "Example:\n"
      "  routeopd train recipes/lab.toml --out runs/first --set objective.arm=union_rkl --set "
      "train.steps=20");
  app.callback([arguments] { run_train(*arguments); });
}

}  // namespace routeopd::app
