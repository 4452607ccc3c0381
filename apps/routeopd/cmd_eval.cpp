// routeopd eval: sample, grade, summarise; one model, or every checkpoint of a run.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "progress.h"
#include "rank_checks.h"
#include "routeopd/base/files.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/shared_work.h"
#include "routeopd/eval/eval_directory.h"
#include "routeopd/eval/evaluate.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/grade/answer.h"
#include "routeopd/model/model_files.h"
#include "routeopd/train/recipe.h"

namespace routeopd::app {
namespace {

namespace fs = std::filesystem;
using table::Align;

constexpr std::int64_t kMostNew = 16384;

struct EvalArguments {
  std::string model, checkpoints, out;
  std::vector<std::string> suites;
  eval::Protocol protocol;
  table::TableFormat format = table::TableFormat::kText;
  OutputFlags output;
};

// N of step_N.
std::optional<std::int64_t> step_of(const fs::path& directory) {
  const std::string name = fs::path(directory / "").parent_path().filename().string();
  std::int64_t step = 0;
  if (!name.starts_with("step_")) return std::nullopt;
  const auto [end, wrong] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  if (wrong != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

// The model in summary.json: its path, the hash of its weights, and the step of a run's checkpoint.
Json model_json(const fs::path& directory) {
  Json model = {{"path", directory.string()}, {"weights", formats::weights_sha256(directory)}};
  if (const auto step = step_of(directory)) model["step"] = *step;
  return model;
}

std::string percent(const Json& share) {
  return fmt::format("{:.2f}", 100 * share.get<double>());
}

std::string summary_table(const Json& summary, table::TableFormat format) {
  const std::string samples = summary["decoding"]["n"].dump();
  table::TextTable table({{"suite", Align::kLeft},
                          {"problems", Align::kRight},
                          {fmt::format("Avg@{} %", samples), Align::kRight},
                          {"95 %", Align::kRight},
                          {fmt::format("pass@{} %", samples), Align::kRight},
                          {fmt::format("maj@{} %", samples), Align::kRight},
                          {"tokens", Align::kRight},
                          {"median", Align::kRight},
                          {"P90", Align::kRight},
                          {"clipped %", Align::kRight},
                          {"format %", Align::kRight}});
  const auto add = [&](const std::string& name, const std::string& problems, const Json& row) {
    const auto length = [&](const char* which) {
      return fmt::format("{:.1f}", row["length"][which].get<double>());
    };
    table.add({name, problems, percent(row["avg"]),
               fmt::format("[{}, {}]", percent(row["avg_interval"][0]), percent(row["avg_interval"][1])),
               percent(row["pass@k"][samples]), percent(row["maj@k"][samples]), length("mean"), length("p50"),
               length("p90"), percent(row["clip_rate"]), percent(row["format_rate"])});
  };
  for (const auto& [name, suite] : summary["suites"].items()) add(name, suite["n"].dump(), suite);
  if (summary["suites"].size() > 1) add("average", "", summary["average"]);
  return table.rendered(format);
}

// One model and the suites that it answers.
struct Subject {
  tokenizer::Tokenizer tokenizer;
  eval::Protocol protocol;
  std::vector<eval::Suite> suites;
  model::Model model;
  Json identity;
};

Subject read_subject(const EvalArguments& arguments, const fs::path& directory) {
  Subject subject{.tokenizer = tokenizer::Tokenizer(directory),
                  .protocol = arguments.protocol,
                  .suites = {},
                  .model = {},
                  .identity = {}};
  for (const std::string& word : arguments.suites) {
    const auto [name, path] = suite_argument(word);
    for (const eval::Suite& other : subject.suites) {
      if (other.name == name)
        throw UsageError("--suite: {} is named twice; give NAME=FILE with different names", name);
    }
    subject.suites.push_back(eval::read_suite(name, path, subject.protocol, directory, subject.tokenizer));
  }
  // By name, so that nothing depends on the order of the arguments.
  std::sort(subject.suites.begin(), subject.suites.end(),
            [](const eval::Suite& a, const eval::Suite& b) { return a.name < b.name; });
  subject.model = model::load_model(directory);
  subject.protocol.max_new_tokens = kMostNew;  // what every suite's longest prompt leaves
  for (const eval::Suite& suite : subject.suites) {
    const std::int64_t most = subject.protocol.max_new_tokens;
    subject.protocol.max_new_tokens =
        engine::longest_response(subject.model, suite.prompts, arguments.protocol.max_new_tokens, most);
  }
  subject.identity = model_json(directory);
  return subject;
}

// A complete evaluation of the same model and protocol is read, not repeated.
Json evaluate_subject(const EvalArguments& arguments, const Subject& subject, engine::Engine& engine,
                      const fs::path& out, const std::string& label) {
  const auto& [tokenizer, protocol, suites, model, identity] = subject;
  if (eval::grade_again(out, suites, protocol, tokenizer, identity) && !arguments.output.quiet)
    fmt::print(stderr, "{}: its responses are graded again, by {}\n", out.string(), grade::kExtractor);
  if (auto summary = eval::finished_evaluation(out, eval::protocol_json(identity, protocol, suites))) {
    if (!arguments.output.quiet) fmt::print(stderr, "{}: is complete; nothing is sampled\n", out.string());
    return *summary;
  }
  std::unique_ptr<Progress> progress;
  const auto watch = [&](const eval::EvalProgress& at) {
    if (!progress) {
      if (at.found > 0 && !arguments.output.quiet)
        fmt::print(stderr, "{}: resumes with the {} of {} responses that are there\n", out.string(), at.found,
                   at.total);
      progress = std::make_unique<Progress>(label, at.total - at.found, arguments.output.quiet);
    }
    progress->update(at.done - at.found, fmt::format("{}, {} of {} responses", at.suite, at.done - at.found,
                                                     at.total - at.found));
  };
  return eval::evaluate_into(out, engine, suites, protocol, tokenizer, identity, watch).summary;
}

// One model into one directory. Rank 0 has the summary; the others answer its problems.
Json evaluate_model(const EvalArguments& arguments, const fs::path& directory, const fs::path& out,
                    const std::string& label) {
  ranks::Group& group = ranks::world();
  std::optional<Subject> subject;
  std::optional<engine::LocalEngine> engine;
  std::map<std::string, std::string> files;
  ranks::together(group, [&] {
    subject.emplace(read_subject(arguments, directory));
    engine.emplace(subject->model, subject->tokenizer.real_ids());
    if (!group.alone()) files = model_hashes("the model", directory);
  });
  ranks::check_agreement(group, files);
  Json summary;
  engine::share_work(group, {&*engine}, [&](const std::vector<engine::Engine*>& shared) {
    summary = evaluate_subject(arguments, *subject, *shared.front(), out, label);
  });
  return summary;
}

// Steps that have a checkpoint, ascending.
std::vector<std::int64_t> checkpoint_steps(const fs::path& run) {
  std::vector<std::int64_t> steps;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", unreadable)) {
    if (const auto step = step_of(entry.path()); step && fs::exists(entry.path() / "config.json"))
      steps.push_back(*step);
  }
  if (steps.empty())
    throw UserError("{}: has no checkpoints/step_N; expected the directory of a run", run.string());
  std::sort(steps.begin(), steps.end());
  return steps;
}

// Checkpoints that the run's recipe plans and that are not there: `keep` removed them, or the run has not
// made them yet.
std::vector<std::int64_t> steps_not_there(const fs::path& run, const std::vector<std::int64_t>& there) {
  std::vector<std::int64_t> absent;
  if (!fs::exists(run / "recipe.toml")) return absent;
  const train::Recipe recipe = train::read_recipe((run / "recipe.toml").string());
  if (recipe.checkpoint.every < 1) return absent;
  for (std::int64_t step = recipe.checkpoint.every; step <= recipe.train.steps;
       step += recipe.checkpoint.every) {
    if (!std::binary_search(there.begin(), there.end(), step)) absent.push_back(step);
  }
  return absent;
}

std::string trajectory_table(const Json& trajectory, table::TableFormat format) {
  std::vector<table::TextTable::Column> columns{{"step", Align::kRight}};
  const Json& points = trajectory["points"];
  std::vector<std::string> names;
  for (const auto& item : points.front()["suites"].items()) names.push_back(item.key());
  for (const std::string& name : names) columns.push_back({name + " %", Align::kRight});
  for (const char* title : {"average %", "95 %", "tokens", "clipped %", "format %"})
    columns.push_back({title, Align::kRight});
  table::TextTable table(std::move(columns));
  for (const Json& point : points) {
    std::vector<std::string> row{point["step"].dump()};
    for (const std::string& name : names) row.push_back(percent(point["suites"][name]["avg"]));
    const Json& mean = point["average"];
    row.push_back(percent(mean["avg"]));
    row.push_back(
        fmt::format("[{}, {}]", percent(mean["avg_interval"][0]), percent(mean["avg_interval"][1])));
    row.push_back(fmt::format("{:.1f}", mean["length"]["mean"].get<double>()));
    row.push_back(percent(mean["clip_rate"]));
    row.push_back(percent(mean["format_rate"]));
    table.add(std::move(row));
  }
  return table.rendered(format);
}

// OUT/step_N for every checkpoint, and OUT/trajectory.json, which grows with them.
Json evaluate_checkpoints(const EvalArguments& arguments) {
  const fs::path run = arguments.checkpoints, out = arguments.out;
  ranks::Group& group = ranks::world();
  std::vector<std::int64_t> steps;
  ranks::together(group, [&] {
    if (group.leads()) steps = checkpoint_steps(run);
  });
  steps = Json::parse(group.gather(Json(steps).dump()).front()).get<std::vector<std::int64_t>>();
  const std::vector<std::int64_t> absent = steps_not_there(run, steps);
  if (!absent.empty() && !arguments.output.quiet)
    fmt::print(stderr, "{}: {} planned checkpoint{} not there: {}\n", run.string(), absent.size(),
               absent.size() == 1 ? " is" : "s are", fmt::join(absent, ", "));
  Json trajectory = {{"run", run.string()}, {"not_there", absent}, {"points", Json::array()}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string name = fmt::format("step_{}", steps[i]);
    const Json summary = evaluate_model(arguments, run / "checkpoints" / name, out / name,
                                        fmt::format("eval {} ({} of {})", name, i + 1, steps.size()));
    if (!group.leads()) continue;
    if (i == 0) {
      for (const char* field : {"decoding", "seed", "template", "extractor"})
        trajectory[field] = summary[field];
    }
    trajectory["points"].push_back({{"step", steps[i]},
                                    {"model", summary["model"]},
                                    {"avg", summary["avg"]},
                                    {"average", summary["average"]},
                                    {"suites", summary["suites"]}});
    write_file(out / "trajectory.json",
               trajectory.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  return trajectory;
}

void run_eval(EvalArguments& arguments) {
  const bool leads = ranks::world().leads();
  if (!leads) arguments.output = {.quiet = true, .json = false};
  check_same_build(ranks::world());
  if (arguments.model.empty() == arguments.checkpoints.empty())
    throw CLI::RequiredError("either --model DIR or --checkpoints RUN");
  const bool one = !arguments.model.empty();
  const Json result = one ? evaluate_model(arguments, arguments.model, arguments.out, "eval")
                          : evaluate_checkpoints(arguments);
  if (arguments.output.json) {
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (!arguments.output.quiet) {
    std::cout << (one ? summary_table(result, arguments.format) : trajectory_table(result, arguments.format));
  }
}

}  // namespace

void add_eval(CLI::App& app) {
  const auto arguments = std::make_shared<EvalArguments>();
  eval::Protocol& protocol = arguments->protocol;
  protocol.max_new_tokens = 0;
  CLI::Option* const model = app.add_option("--model", arguments->model, "Hugging Face model directory");
  app.add_option(
         "--checkpoints", arguments->checkpoints,
         "RUN: every checkpoint of this run in place of one model, into OUT/step_N and OUT/trajectory.json")
      ->excludes(model);
  app.add_option("--suite", arguments->suites, "NAME=FILE: problems with answers, JSONL; may be repeated")
      ->required()
      ->allow_extra_args(false);
  app.add_option(
         "--out", arguments->out,
         "Eval directory: new, or the same evaluation stopped, which resumes, or complete, which is shown")
      ->required();
  add_decoding_options(app, protocol.prompt_template, protocol.temperature, protocol.top_p);
  app.add_option("--n", protocol.n, "Samples per problem")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--max-new", protocol.max_new_tokens,
                 "Longest response, in tokens; 0: 16384, or what the model's positions leave")
      ->check(CLI::Range(0, 1 << 24))
      ->default_str("0");
  app.add_option("--seed", protocol.seed, "Seed of the addressed random numbers")->capture_default_str();
  add_table_flags(app, arguments->format);
  add_output_flags(app, arguments->output);
  app.footer(
      "Writes responses.jsonl as responses end, then problems.jsonl and summary.json. Stopped, the same "
      "command resumes\n"
      "where it was, with the same result. `routeopd compare A B` contrasts two such directories.\n\n"
      "Examples:\n"
      "  routeopd eval --model lab/teacher --suite heldout=lab/heldout.jsonl --out runs/eval-teacher \\\n"
      "    --template $'Problem: {problem}\\nSolution:' --max-new 80\n"
      "  routeopd eval --checkpoints runs/one --suite math500=math500.jsonl --suite aime24=aime24.jsonl "
      "--out runs/one-eval");
  app.callback([arguments] { run_eval(*arguments); });
}

}  // namespace routeopd::app
