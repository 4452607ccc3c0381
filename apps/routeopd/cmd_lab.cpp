// routeopd lab: the laboratory pair from nothing, and the study on it.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "progress.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/lab/make.h"
#include "routeopd/lab/study.h"
#include "routeopd/lab/study_summary.h"
#include "routeopd/report/directory_report.h"
#include "routeopd/report/report_page.h"

namespace routeopd::app {
namespace {

constexpr const char* kLaboratory = "lab";

struct MakePairArguments {
  std::string out;
  lab::MakeOptions options;
  OutputFlags output;
};

struct StudyArguments {
  std::vector<std::string> parts;
  std::string laboratory, student, teacher, prompts, out;
  std::vector<std::string> suites;
  bool quick = false;
  Json settings;
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

// The pair that was said; none where nothing was.
std::optional<lab::StudyPair> pair_of(const StudyArguments& arguments) {
  const bool other = !arguments.student.empty() || !arguments.teacher.empty() || !arguments.prompts.empty() ||
                     !arguments.suites.empty();
  if (!other) {
    if (arguments.laboratory.empty()) return std::nullopt;
    return lab::laboratory_pair(arguments.laboratory);
  }
  if (!arguments.laboratory.empty())
    throw CLI::ValidationError("--lab and another pair exclude each other; say one of them");
  if (arguments.student.empty() || arguments.teacher.empty() || arguments.prompts.empty())
    throw CLI::RequiredError("--student, --teacher and --prompts together");
  lab::StudyPair pair{.laboratory = false,
                      .student = lab::absolute_path(arguments.student),
                      .teacher = lab::absolute_path(arguments.teacher),
                      .prompts = lab::absolute_path(arguments.prompts),
                      .suites = {}};
  for (const std::string& word : arguments.suites) {
    const auto [name, path] = suite_argument(word);
    if (!pair.suites.emplace(name, lab::absolute_path(path)).second)
      throw UserError("--suite: {} is named twice; give NAME=FILE with different names", name);
  }
  return pair;
}

std::vector<std::string> parts_of(const StudyArguments& arguments) {
  const std::vector<std::string>& known = lab::part_names();
  for (const std::string& part : arguments.parts) {
    if (std::find(known.begin(), known.end(), part) == known.end())
      throw CLI::ValidationError(
          fmt::format("{}: no such part; did you mean {}?", part, nearest_name(part, known)));
  }
  if (arguments.parts.empty()) return known;
  std::vector<std::string> parts;  // in the order in which they are run, each once
  for (const std::string& part : known) {
    if (std::count(arguments.parts.begin(), arguments.parts.end(), part) > 0) parts.push_back(part);
  }
  return parts;
}

std::string progress_note(const lab::StudyProgress& at) {
  std::string note = at.part;
  if (at.runs > 0) note += fmt::format(": run {} of {}", at.run, at.runs);
  note += fmt::format(", {}", at.what);
  if (at.steps > 0) note += fmt::format(", step {} of {}", at.step, at.steps);
  if (!at.note.empty()) note += fmt::format(", {}", at.note);
  return at.seconds_left < 0 ? note : note + fmt::format(", {} left", clock_text(at.seconds_left));
}

void run_study(const StudyArguments& arguments) {
  if (arguments.out.empty()) throw CLI::RequiredError("--out");
  const std::vector<std::string> parts = parts_of(arguments);
  lab::StudyRequest request{
      .pair = pair_of(arguments), .quick = arguments.quick, .settings = arguments.settings};
  // The committed laboratory, for a study that begins and names no pair.
  if (!request.pair && !std::filesystem::exists(std::filesystem::path(arguments.out) / "study.json"))
    request.pair = lab::laboratory_pair(kLaboratory);
  lab::StudyFiles files(arguments.out, request);
  try {
    Progress progress("lab", -1, arguments.output.quiet);
    lab::run_study(files, parts,
                   [&](const lab::StudyProgress& at) { progress.update(0, progress_note(at)); });
  } catch (const Interrupted&) {
    std::string command = "routeopd lab";
    for (const std::string& part : arguments.parts) command += fmt::format(" {}", part);
    if (!arguments.output.quiet)
      std::cerr << fmt::format("what is done is in {}; `{} --out {}` goes on\n", arguments.out, command,
                               arguments.out);
    throw;
  } catch (const UserError&) {
    files.withdraw();
    throw;
  }
  const report::StudyFiles read = report::read_study(arguments.out);
  const report::Report page = report::study_report(read, "");
  const report::WrittenReport written =
      report::write_report(page, {.page = (files.path() / "report.html").string(),
                                  .figures = "",
                                  .tables = (files.path() / "tables").string()});
  const lab::StudySummary summary = lab::summarize(files, read);
  if (arguments.output.json) {
    std::cout << lab::json_of(summary).dump() << '\n';
    return;
  }
  if (arguments.output.quiet) return;
  const lab::StudyOptions& options = files.options();
  double seconds = 0;  // of every process that worked on it
  for (const auto& item : files.manifest()["parts"].items()) seconds += item.value().value("seconds", 0.0);
  std::cout << lab::summary_text(summary);
  if (!page.verdict.empty()) std::cout << page.verdict << '\n';
  std::cout << fmt::format(
      "{} steps of {} prompts x {} responses a run, lr {}, k = {}, {:.0f} s in all; every table and {} of {} "
      "figures: "
      "{}/report.html, tables in {}/tables\n",
      options.steps, options.prompts_per_step, options.n, options.lr, options.k, seconds, written.drawn,
      written.charts, arguments.out, arguments.out);
  if (!written.trouble.empty()) std::cout << written.trouble << '\n';
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

void add_study(CLI::App& app) {
  const auto arguments = std::make_shared<StudyArguments>();
  std::string parts = "What to run; nothing: all of";
  for (const std::string& part : lab::part_names()) parts += fmt::format(" {}", part);
  app.add_option("part", arguments->parts, parts)->type_name("");
  app.add_option("--out", arguments->out,
                 "Study directory: new, or one that was stopped, which goes on, or complete, which is shown");
  app.add_option("--lab", arguments->laboratory,
                 fmt::format("Laboratory directory, as `lab make` writes it [{}]", kLaboratory));
  app.add_option("--student", arguments->student,
                 "Another pair: the student, a Hugging Face model directory");
  app.add_option("--teacher", arguments->teacher, "its teacher");
  app.add_option("--prompts", arguments->prompts, "its training prompts, JSONL");
  app.add_option("--suite", arguments->suites,
                 "NAME=FILE: problems with answers, JSONL; may be repeated; without one there is no accuracy")
      ->allow_extra_args(false);
  app.add_flag("--quick", arguments->quick,
               "Every part in minutes: one seed, 10 steps, 60 problems x 4 samples, 128 states, 3 rounds");
  add_fields(app, lab::study_fields(), arguments->settings);
  add_output_flags(app, arguments->output);
  app.callback([&app, arguments] {
    if (app.get_subcommands().empty()) run_study(*arguments);
  });
}

}  // namespace

void add_lab(CLI::App& app) {
  add_make_pair(*app.add_subcommand("make", "The pair and its problems, from nothing"));
  add_study(app);
  app.footer(
      "Parts: main (the main arms), ablations (destination, objective, budget), sweeps (k, m), dynamics, "
      "mechanism, "
      "cost,\nbehaviour. Stopped at any moment, the same command goes on; what is not said is as it was "
      "begun.\n"
      "The defaults above are those of the laboratory.\n\n"
      "Examples:\n"
      "  routeopd lab --out runs/study\n"
      "  routeopd lab ablations --out runs/study\n"
      "  routeopd lab --quick --out runs/quick\n"
      "  routeopd lab main --out runs/pair --student A --teacher B --prompts train.jsonl --suite "
      "math=math.jsonl "
      "--lr 1e-6");
}

}  // namespace routeopd::app
