// routeopd lab: a laboratory pair from nothing.
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
  std::string family = "sums";
  Json settings;
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
  const lab::Task& task = lab::task_named(arguments.family);
  const lab::MakeOptions options = lab::with_settings(task.make_options(), arguments.settings);
  {
    StageLines stages(arguments.output.quiet);
    lab::make_laboratory(arguments.out, task, options,
                         [&](const std::string& what, std::int64_t step, std::int64_t steps, double loss) {
                           stages.update(what, step, steps, fmt::format("loss {:.4f}", loss));
                         });
  }
  if (arguments.output.json) {
    std::cout << Json{{"laboratory", arguments.out}, {"family", task.name()}}.dump(
                     -1, ' ', false, Json::error_handler_t::replace)
              << '\n';
  } else if (!arguments.output.quiet) {
    std::cerr << fmt::format(
        "teacher, base, train.jsonl, validation.jsonl and heldout.jsonl of the family {} are in {}\n",
        task.name(), arguments.out);
  }
}

void add_make_pair(CLI::App& app) {
  const auto arguments = std::make_shared<MakePairArguments>();
  app.add_option("--out", arguments->out, "Where to write; must not exist")->required();
  std::string families;
  for (const std::string& name : lab::task_names()) families += (families.empty() ? "" : " | ") + name;
  app.add_option("--family", arguments->family, fmt::format("What is to be solved: {}", families))
      ->capture_default_str();
  add_fields(app, lab::make_fields(), arguments->settings);
  add_output_flags(app, arguments->output);
  app.footer(
      "The defaults above are those of sums.\n\nExamples:\n  routeopd lab make --out my-lab\n"
      "  routeopd lab make --family lists --out my-lists");
  app.callback([arguments] { run_make_pair(*arguments); });
}

}  // namespace

void add_lab(CLI::App& app) {
  add_make_pair(*app.add_subcommand("make", "A pair and its problems, from nothing"));
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
