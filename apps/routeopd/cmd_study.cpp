// routeopd study: the paper's study on a laboratory pair or any other.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "progress.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/report/report_files.h"
#include "routeopd/study/study.h"
#include "routeopd/study/study_estimate.h"
#include "routeopd/study/study_plan.h"
#include "routeopd/study/study_report.h"
#include "routeopd/study/study_summary.h"

namespace routeopd::app {
namespace {

constexpr const char* kLaboratory = "lab";

struct StudyArguments {
  std::vector<std::string> words;  // the recipe, if any, and parts
  std::vector<std::string> parts;
  std::string recipe;
  std::vector<std::string> recipe_settings;
  bool dry_run = false;
  std::string laboratory, student, teacher, prompts, validation, out;
  std::vector<std::string> suites;
  bool quick = false;
  Json settings;
  OutputFlags output;
};

// The words before the options: a recipe's file, if any, then parts.
void sort_words(StudyArguments& arguments) {
  for (const std::string& word : arguments.words) {
    if (!word.ends_with(".toml")) {
      arguments.parts.push_back(word);
    } else if (arguments.recipe.empty()) {
      arguments.recipe = word;
    } else {
      throw CLI::ValidationError(fmt::format("{} and {}: a study has one recipe", arguments.recipe, word));
    }
  }
  if (arguments.recipe.empty() && !arguments.recipe_settings.empty())
    throw CLI::ValidationError("--set is over what a recipe says; name one");
}

// The pair that the user named; none where nothing was said.
std::optional<study::StudyPair> pair_of(const StudyArguments& arguments,
                                        const std::optional<train::Recipe>& recipe) {
  if (recipe) {
    if (!arguments.laboratory.empty() || !arguments.student.empty() || !arguments.teacher.empty() ||
        !arguments.prompts.empty() || !arguments.suites.empty())
      throw CLI::ValidationError("the recipe names the pair; --set student.path=… and the like change it");
    study::StudyPair pair = study::recipe_pair(*recipe);
    if (!arguments.validation.empty()) pair.validation = study::absolute_path(arguments.validation);
    return pair;
  }
  const bool other = !arguments.student.empty() || !arguments.teacher.empty() || !arguments.prompts.empty() ||
                     !arguments.suites.empty() || !arguments.validation.empty();
  if (!other) {
    if (arguments.laboratory.empty()) return std::nullopt;
    return study::laboratory_pair(arguments.laboratory);
  }
  if (!arguments.laboratory.empty())
    throw CLI::ValidationError("--lab and another pair exclude each other; say one of them");
  if (arguments.student.empty() || arguments.teacher.empty() || arguments.prompts.empty())
    throw CLI::ValidationError("--student, --teacher and --prompts go together; say all three");
  study::StudyPair pair{
      .family = "",
      .student = study::absolute_path(arguments.student),
      .teacher = study::absolute_path(arguments.teacher),
      .prompts = study::absolute_path(arguments.prompts),
      .suites = {},
      .validation = arguments.validation.empty() ? "" : study::absolute_path(arguments.validation)};
  for (const std::string& word : arguments.suites) {
    const auto [name, path] = suite_argument(word);
    if (!pair.suites.emplace(name, study::absolute_path(path)).second)
      throw UsageError("--suite: {} is named twice; give NAME=FILE with different names", name);
  }
  return pair;
}

std::vector<std::string> parts_of(const StudyArguments& arguments) {
  const std::vector<std::string> known = study::part_names();
  for (const std::string& part : arguments.parts) {
    if (std::find(known.begin(), known.end(), part) != known.end()) continue;
    if (part.find_first_of("/.") != std::string::npos)
      throw CLI::ValidationError(fmt::format("{}: is neither a part nor a recipe, NAME.toml", part));
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

std::string progress_note(const study::StudyProgress& at) {
  std::string note = at.part;
  if (at.runs > 0) note += fmt::format(": run {} of {}", at.run, at.runs);
  note += fmt::format(", {}", at.what);
  if (at.steps > 0) note += fmt::format(", step {} of {}", at.step, at.steps);
  if (!at.note.empty()) note += fmt::format(", {}", at.note);
  return at.seconds_left < 0 ? note : note + fmt::format(", {} left", clock_text(at.seconds_left));
}

void run_study(StudyArguments arguments) {
  sort_words(arguments);
  if (arguments.out.empty() && !arguments.dry_run) throw CLI::RequiredError("--out");
  const std::vector<std::string> parts = parts_of(arguments);
  const bool tune = std::count(arguments.parts.begin(), arguments.parts.end(), "tune") > 0;
  study::StudyRequest request{
      .pair = {}, .quick = arguments.quick, .settings = arguments.settings, .recipe = {}};
  if (!arguments.recipe.empty()) {
    request.recipe = train::read_recipe(arguments.recipe, arguments.recipe_settings);
    request.recipe->out = "runs/unnamed";  // each run has its own
    train::check_recipe(*request.recipe);
  }
  request.pair = pair_of(arguments, request.recipe);
  // The committed laboratory, for a study that begins and names no pair.
  if (!request.pair &&
      (arguments.out.empty() ||
       !std::filesystem::exists(std::filesystem::path(arguments.out) / study::StudyFiles::kManifest)))
    request.pair = study::laboratory_pair(kLaboratory);
  if (arguments.dry_run) {
    if (!request.pair) throw CLI::ValidationError("--dry-run tells of a study that begins; leave --out away");
    const study::StudyTerms terms = study::terms_of(request);
    study::check_parts(parts, tune, terms.pair, terms.options, terms.rates);
    const study::StudyEstimate estimate = study::estimate_study(terms, parts);
    std::cout << (arguments.output.json ? study::json_of(estimate).dump() + "\n"
                                        : study::estimate_text(estimate, terms));
    return;
  }
  study::StudyFiles files(arguments.out, request);
  try {
    study::check_parts(parts, tune, files.pair(), files.options(),
                       files.options().rates.empty() ? std::nullopt : std::optional(files.rates()));
    Progress progress("study", -1, arguments.output.quiet);
    study::run_study(files, parts,
                     [&](const study::StudyProgress& at) { progress.update(0, progress_note(at)); });
  } catch (const Interrupted&) {
    std::string command = "routeopd study";
    for (const std::string& part : arguments.parts) command += fmt::format(" {}", part);
    if (!arguments.output.quiet)
      std::cerr << fmt::format("what is done is in {}; `{} --out {}` resumes it\n", arguments.out, command,
                               arguments.out);
    throw;
  } catch (const UserError&) {
    files.withdraw();
    throw;
  }
  const study::StudyResults results = files.results();
  const report::Report page = study::study_report(results, "");
  const report::WrittenReport written =
      report::write_report(page, {.page = files.path() / study::StudyFiles::kPage,
                                  .figures = "",
                                  .tables = files.path() / study::StudyFiles::kTables});
  const study::StudySummary summary = study::summarize(files, results);
  if (arguments.output.json) {
    std::cout << study::json_of(summary).dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    return;
  }
  if (arguments.output.quiet) return;
  const study::StudyOptions& options = files.options();
  double seconds = 0;  // of every process that worked on it
  for (const auto& item : files.manifest()["parts"].items()) seconds += item.value().value("seconds", 0.0);
  std::cout << study::summary_text(summary);
  if (!page.verdict.empty()) std::cout << page.verdict << '\n';
  std::cout << fmt::format(
      "{} steps of {} prompts x {} responses a run, k = {}, {:.0f} s in all; every table and {} of {} "
      "figures: {}/{}, tables in {}/{}\n",
      options.steps, options.prompts_per_step, options.n, options.k, seconds, written.drawn, written.charts,
      arguments.out, study::StudyFiles::kPage, arguments.out, study::StudyFiles::kTables);
  if (!written.trouble.empty()) std::cout << written.trouble << '\n';
}

}  // namespace

void add_study(CLI::App& app) {
  const auto arguments = std::make_shared<StudyArguments>();
  std::string parts = "What to run; nothing: all of";
  for (const std::string& part : study::part_names()) parts += fmt::format(" {}", part);
  app.add_option("part", arguments->words,
                 parts + "; before them a RECIPE.toml that says what all runs share, or nothing")
      ->type_name("");
  app.add_option("--set", arguments->recipe_settings,
                 "section.key=value, over what the recipe says; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--dry-run", arguments->dry_run, "Print runs, tokens, hours and disk, and stop");
  app.add_option(
      "--out", arguments->out,
      "Study directory: new, or one that was stopped, which is resumed, or complete, which is shown");
  app.add_option("--lab", arguments->laboratory,
                 fmt::format("Laboratory directory, as `lab make` writes it [{}]", kLaboratory));
  app.add_option("--student", arguments->student,
                 "Another pair: the student, a Hugging Face model directory");
  app.add_option("--teacher", arguments->teacher, "its teacher");
  app.add_option("--prompts", arguments->prompts, "its training prompts, JSONL");
  app.add_option("--suite", arguments->suites,
                 "NAME=FILE: problems with answers, JSONL; may be repeated; without one there is no accuracy")
      ->allow_extra_args(false);
  app.add_option(
      "--validation", arguments->validation,
      "Problems with answers, JSONL, that learning rates are chosen by: in no suite, not trained on");
  app.add_flag(
      "--quick", arguments->quick,
      "Every part in minutes: one seed, 10 steps, 60 problems x 4 samples, 128 states, 3 rounds; two "
      "arms tuned over three rates");
  add_fields(app, study::study_fields(), arguments->settings);
  add_output_flags(app, arguments->output);
  std::string footer = "Parts:\n";
  for (const study::Part& part : study::all_parts())
    footer += fmt::format("  {:<11} {}\n", part.name, part.what);
  app.footer(
      footer +
      "\nStopped at any moment, the same command resumes; options that are not given stay as they were.\n"
      "The defaults above are those of the laboratory.\n\n"
      "Examples:\n"
      "  routeopd study --out runs/study\n"
      "  routeopd study ablations --out runs/study\n"
      "  routeopd study --quick --out runs/quick\n"
      "  routeopd study recipes/paper_2_justrl_deepseek_to_deepseek_1_5b.toml main ablations --dry-run\n"
      "  routeopd study main --out runs/rates --rates runs/study/tune.json\n"
      "  routeopd study main --out runs/pair --student A --teacher B --prompts train.jsonl --suite "
      "math=math.jsonl --validation small.jsonl"
      " --lrs 5e-7,1e-6,2e-6");
  app.callback([arguments] { run_study(*arguments); });
}

}  // namespace routeopd::app
