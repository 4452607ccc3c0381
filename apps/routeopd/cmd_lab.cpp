// routeopd lab: the laboratory pair from nothing.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <string>

#include "command.h"
#include "progress.h"
#include "routeopd/lab/make.h"

namespace routeopd::app {
namespace {

struct MakePairArguments {
  std::string out;
  lab::MakeOptions options;
  OutputFlags output;
};

// One progress line for each stage, in turn.
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

void run_make_pair(const MakePairArguments& arguments) {
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

void add_make_pair(CLI::App& app) {
  const auto arguments = std::make_shared<MakePairArguments>();
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
  app.callback([arguments] { run_make_pair(*arguments); });
}

}  // namespace

void add_lab(CLI::App& app) {
  add_make_pair(*app.add_subcommand("make", "The pair and its problems, from nothing"));
  app.footer("The study on it: `routeopd study`.\n\nExample:\n  routeopd lab make --out my-lab");
  app.allow_extras();
  app.callback([&app] {
    if (!app.get_subcommands().empty()) return;
    std::string command = "routeopd study";
    for (const std::string& word : app.remaining()) command += " " + word;
    throw CLI::ValidationError(fmt::format("lab: expected `routeopd lab make`; the study is `{}`", command));
  });
}

}  // namespace routeopd::app
