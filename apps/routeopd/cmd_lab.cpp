// routeopd lab: the laboratory pair from nothing, and the study on it.
//
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "progress.h"
#include "routeopd/lab/make.h"
#include "routeopd/lab/study.h"

namespace routeopd::app {
namespace {

struct MakeArguments {
  std::string out;
  lab::MakeOptions options;
  OutputFlags output;
};

struct MainArguments {
  std::string laboratory = "lab", out;
  lab::StudyOptions options;
  std::int32_t seeds = 1;
  OutputFlags output;
};

// One progress line a stage, in turn.
class StageLines {
 public:
  explicit StageLines(bool quiet) : quiet_(quiet) {}
  void update(const std::string& what, std::int64_t done, std::int64_t total, const std::string& note) {
    if (what != what_) {
      progress_.reset();
      progress_ = std::make_unique<Progress>(what, total, quiet_);
      what_ = what;
    }
    progress_->update(done, note);
  }

 private:
  bool quiet_;
  std::string what_;
  std::unique_ptr<Progress> progress_;
};

void run_make(const MakeArguments& arguments) {
  {
    StageLines stages(arguments.output.quiet);
    lab::make_laboratory(arguments.out, arguments.options,
                         [&](const std::string& what, std::int64_t step, std::int64_t steps, double loss) {
                           stages.update(what, step, steps, fmt::format("loss {:.4f}", loss));
                         });
  }
  if (arguments.output.json) {
    std::cout << Json{{"laboratory", arguments.out}}.dump() << '\n';
  } else if (!arguments.output.quiet) {
    std::cerr << fmt::format("teacher, base, train.jsonl and heldout.jsonl are in {}\n", arguments.out);
  }
}

void run_main(MainArguments& arguments) {
  lab::StudyOptions& options = arguments.options;
  options.laboratory = arguments.laboratory;
  options.out = arguments.out;
  options.seeds.clear();
  for (std::int32_t i = 0; i < arguments.seeds; ++i)
    options.seeds.push_back(42 + static_cast<std::uint64_t>(i));
  const auto start = std::chrono::steady_clock::now();
  lab::Study study;
  {
    StageLines stages(arguments.output.quiet);
    study = lab::run_study(options, [&](const std::string& what, std::int64_t done, std::int64_t total,
                                        const std::string& note) { stages.update(what, done, total, note); });
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.output.json) {
    std::cout << lab::study_json(study).dump() << '\n';
    return;
  }
  std::cout << lab::study_table(study) << '\n' << lab::study_sentence(study) << '\n';
  std::cout << fmt::format(
      "{} steps of 32 prompts x 4 responses an arm, lr {}, k = {}, {:.0f} s in all; {}/study.json\n",
      options.steps, options.lr, options.k, seconds, arguments.out);
}

void add_make(CLI::App& app) {
  const auto arguments = std::make_shared<MakeArguments>();
  app.add_option("--out", arguments->out, "Where to write; must not exist")->required();
  app.add_option("--seed", arguments->options.seed, "Seed of problems and initial weights")
      ->capture_default_str();
  app.add_option("--teacher-steps", arguments->options.teacher_steps, "Steps of 32 right solutions")
      ->check(CLI::Range(1, 500000))
      ->capture_default_str();
  app.add_option("--mild-steps", arguments->options.mild_steps,
                 "Steps of 32 solutions with seldom slips; 0: the teacher knows right ones alone")
      ->check(CLI::Range(0, 500000))
      ->capture_default_str();
  app.add_option("--base-steps", arguments->options.base_steps, "Steps of 32 solutions with wrong habits")
      ->check(CLI::Range(1, 500000))
      ->capture_default_str();
  add_output_flags(app, arguments->output);
  app.footer("Example:\n  routeopd lab make --out my-lab");
  app.callback([arguments] { run_make(*arguments); });
}

void add_main(CLI::App& app) {
  const auto arguments = std::make_shared<MainArguments>();
  lab::StudyOptions& options = arguments->options;
  app.add_option("--lab", arguments->laboratory, "Laboratory directory, as `lab make` writes it")
      ->capture_default_str();
  app.add_option("--out", arguments->out, "Where runs and study.json go; must not exist")->required();
  app.add_option("--arms", options.arms,
                 "Arms, comma-separated; the first is what the others are compared with")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seeds", arguments->seeds, "Training seeds, from 42")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps an arm")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--lr", options.lr, "Learning rate of every arm")
      ->check(between(1e-12, 1))
      ->capture_default_str();
  app.add_option("--k", options.k, "Support: top-k of each model")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Samples a held-out problem")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--problems", options.problems, "Held-out problems; 0: all")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  app.add_option("--every", options.evaluate_every, "Steps between evaluations; 0: at the end alone")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  add_output_flags(app, arguments->output);
  app.footer("Example:\n  routeopd lab main --out runs/study --seeds 5");
  app.callback([arguments] { run_main(*arguments); });
}

}  // namespace

void add_lab(CLI::App& app) {
  app.require_subcommand(1);
  add_make(*app.add_subcommand("make", "The pair and its problems, from nothing"));
  add_main(*app.add_subcommand("main",
                               "Several arms from one base: accuracy with paired intervals, mismatch, cost"));
  app.footer("Example:\n  routeopd lab make --out my-lab\n  routeopd lab main --lab my-lab --out runs/study");
}

}  // namespace routeopd::app
