// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>

#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

using Absent = TolerantDirectory::Absent;

// Lines that have a step, by step; of two lines of one step the later one counts.
std::vector<Json> by_step(TolerantDirectory& files, const std::string& file, std::vector<Json> lines) {
  std::map<std::int64_t, Json> sorted;
  bool told = false;
  for (Json& line : lines) {
    if (const std::optional<std::int64_t> step = whole_at(line, "step")) {
      sorted[*step] = std::move(line);
    } else if (!told) {
      files.say(file, "has lines without a whole \"step\"; they are not shown");
      told = true;
    }
  }
  std::vector<Json> found;
  for (auto& [step, line] : sorted) found.push_back(std::move(line));
  return found;
}

void read_recipe(TolerantDirectory& files, RunFiles& run) {
  run.recipe = files.toml("recipe.toml");
  if (run.recipe.is_null()) return;
  const Json objective = run.recipe.value("objective", Json::object());
  run.arm = text_at(objective, "arm");
  run.seed = whole_at(run.recipe, "seed");
  if (const std::optional<std::int64_t> k = whole_at(objective, "k"))
    run.k = std::to_string(*k);
  else
    run.k = text_at(objective, "k");
  run.m = whole_at(objective, "m");
  run.steps = whole_at(run.recipe.value("train", Json::object()), "steps");
  const auto tell = [&](bool there, const char* what) {
    if (!there) files.say("recipe.toml", fmt::format("{} is missing or of another type", what));
  };
  tell(!run.arm.empty(), "[objective] arm");
  tell(run.seed.has_value(), "seed");
}

// eval/step_N, by N. Other names are not ours.
std::vector<std::int64_t> evaluated_steps(TolerantDirectory& files) {
  std::set<std::int64_t> steps;
  std::error_code error;
  std::filesystem::directory_iterator entry(files.path("eval"), error), end;
  for (std::size_t seen = 0; !error && entry != end; entry.increment(error), ++seen) {
    if (seen == kMaxEntries) {
      files.say("eval", fmt::format("has more than {} entries; the rest is not shown", kMaxEntries));
      break;
    }
    const std::string name = entry->path().filename().string();
    constexpr std::string_view kPrefix = "step_";
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = -1;
    const char* const last = name.data() + name.size();
    const auto [stop, failure] = std::from_chars(name.data() + kPrefix.size(), last, step);
    if (failure == std::errc() && stop == last && step >= 0) steps.insert(step);
  }
  return {steps.begin(), steps.end()};
}

const Json& entry_named(const Json& list, const std::string& name, const char* intervention = nullptr) {
  static const Json null;
  for (const Json& entry : list) {
    if (text_at(entry, "name") == name &&
        (intervention == nullptr || text_at(entry, "intervention") == intervention))
      return entry;
  }
  return null;
}

// Lists of objects with a name: others would be found by nobody.
void expect_list(TolerantDirectory& files, const Json& probe, const char* key) {
  if (!probe.contains(key) || !probe[key].is_array()) {
    files.say("probe.json", fmt::format("\"{}\" is missing or no list; nothing of it is shown", key));
  } else if (std::any_of(probe[key].begin(), probe[key].end(),
                         [](const Json& entry) { return text_at(entry, "name").empty(); })) {
    files.say("probe.json", fmt::format("\"{}\" has entries without a name; they are not shown", key));
  }
}

// Of probe.json and the files beside it.
const std::initializer_list<std::string_view> kNumbers = {"scale",
                                                          "rms",
                                                          "lr",
                                                          "mean",
                                                          "p10",
                                                          "median",
                                                          "low",
                                                          "high",
                                                          "states",
                                                          "fidelity",
                                                          "leakage",
                                                          "target_mae",
                                                          "completion",
                                                          "overshoot",
                                                          "deficit_reduction",
                                                          "budget",
                                                          "mass",
                                                          "concentration",
                                                          "entropy",
                                                          "quartile",
                                                          "coverage",
                                                          "loss_variance",
                                                          "relative_loss_variance",
                                                          "cycle_violations",
                                                          "routed_share",
                                                          "student_mass",
                                                          "teacher_mass",
                                                          "sign_agreement",
                                                          "student_entropy",
                                                          "teacher_entropy",
                                                          "target",
                                                          "achieved",
                                                          "p_student_source",
                                                          "p_teacher_source",
                                                          "p_student_destination",
                                                          "p_teacher_destination",
                                                          "position",
                                                          "p_student",
                                                          "p_teacher",
                                                          "excess",
                                                          "deficit",
                                                          "q_minus",
                                                          "q_plus",
                                                          "potential",
                                                          "bounded",
                                                          "change_sampled_rkl",
                                                          "change_routeopd",
                                                          "advantage"};

}  // namespace

RunFiles read_run(const std::filesystem::path& directory, std::string shown) {
  RunFiles run;
  run.directory = directory;
  run.shown = shown.empty() ? directory.string() : std::move(shown);
  TolerantDirectory files(directory, run.shown, run.missing);
  if (!files.is_there()) return run;
  read_recipe(files, run);
  for (const Json& line : by_step(files, "metrics.jsonl", files.lines("metrics.jsonl", "steps")))
    run.metrics.push_back(step_metrics_of(line, [&](const std::string& field, const std::string& clause) {
      files.say("metrics.jsonl", fmt::format("{}: {}; it is not shown", field, clause));
    }));
  run.probe = by_step(files, "probe.jsonl", files.lines("probe.jsonl", "probed steps", Absent::kIsFine));
  for (Json& line : run.probe)
    files.numbers_only(line, "probe.jsonl",
                       {"mass", "rms", "mean", "p10", "median", "fidelity", "leakage", "deficit_reduction"});
  const std::vector<std::int64_t> steps = evaluated_steps(files);
  for (const std::int64_t step : steps) {
    const std::string name = fmt::format("eval/step_{}", step);
    EvalFiles eval = read_eval(files.path(name), step == steps.back(), files.shown(name));
    eval.step = step;
    run.evals.push_back(std::move(eval));
  }
  return run;
}

ProbeFiles read_probe(const std::filesystem::path& directory, std::string shown) {
  ProbeFiles probe;
  probe.directory = directory;
  probe.shown = shown.empty() ? directory.string() : std::move(shown);
  TolerantDirectory files(directory, probe.shown, probe.missing);
  if (!files.is_there()) return probe;
  probe.probe = files.object("probe.json");
  if (!probe.probe.is_null()) {
    for (const char* key : {"arms", "rows"}) expect_list(files, probe.probe, key);
    for (const char* key : {"arms", "rows", "statistics"})
      if (probe.probe.contains(key))
        files.numbers_only(probe.probe[key], fmt::format("probe.json: {}", key), kNumbers);
  }
  probe.states = files.lines("states.jsonl", "states", Absent::kIsFine);
  for (Json& line : probe.states) files.numbers_only(line, "states.jsonl", kNumbers);
  probe.routes = files.lines("routes.jsonl", "routes", Absent::kIsFine);
  for (Json& line : probe.routes) files.numbers_only(line, "routes.jsonl", kNumbers);
  probe.example = files.object("example.json", Absent::kIsFine);
  files.numbers_only(probe.example, "example.json", kNumbers);
  return probe;
}

const Json& ProbeFiles::row(const std::string& name, const std::string& intervention) const {
  return entry_named(list_at(probe, "rows"), name, intervention.c_str());
}

const Json& ProbeFiles::arm(const std::string& name) const {
  return entry_named(list_at(probe, "arms"), name);
}

}  // namespace routeopd::report
