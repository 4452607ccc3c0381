// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/training_tables.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

#include "routeopd/report/arms.h"
#include "routeopd/routing/options.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/paper_numbers.h"

namespace routeopd::study {
namespace {

// Means over the seeds of an arm that were measured on the way.
struct PathPoint {
  std::optional<double> accuracy, mass, fidelity, leakage;
  std::size_t seeds = 0;
};

std::map<std::int64_t, PathPoint> path_of(const StudyView& view, const std::string& arm) {
  std::map<std::int64_t, std::array<std::vector<std::optional<double>>, 4>> values;
  std::size_t seeds = 0;
  for (const StudyRun* run : view.results.runs_of(arm)) {
    // A run that was measured once, at its end, would stand at the end of the path alone.
    if (!run->complete || (run->files.probe.size() < 2 && run->files.evals.size() < 2)) continue;
    ++seeds;
    for (const EvalFiles& eval : run->files.evals)
      if (eval.step) values[*eval.step][0].push_back(number_at(eval.summary, {"avg"}));
    for (const Json& line : run->files.probe) {
      auto& at = values[*whole_at(line, "step")];
      at[1].push_back(number_at(line, {"mass"}));
      at[2].push_back(number_at(line, {"fidelity", "mean"}));
      at[3].push_back(number_at(line, {"leakage", "mean"}));
    }
  }
  std::map<std::int64_t, PathPoint> path;
  for (const auto& [step, at] : values)
    path[step] = {mean_of(at[0]), mean_of(at[1]), mean_of(at[2]), mean_of(at[3]), seeds};
  if (path.empty() || !view.results.base) return path;
  PathPoint& start = path[0];
  start.seeds = seeds;
  if (!start.accuracy) start.accuracy = number_at(view.results.base->summary, {"avg"});
  return path;
}

Block dynamics_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("training-dynamics", "Training over its steps");
  TextTable table =
      number_table({"arm", "step", "seeds", average_name(view) + " %", "mass %", "fidelity %", "leakage %",
                    "paper AIME24/25 %", "paper mass %", "paper fidelity %", "paper leakage %"});
  std::map<std::string, double> last_mass;
  for (const std::string& arm : main_arms()) {
    const std::map<std::int64_t, PathPoint> path = path_of(view, arm);
    if (path.empty()) continue;
    for (const auto& [step, point] : path) {
      const bool first = step == path.begin()->first, last = step == path.rbegin()->first;
      const auto paper = [&, arm](const char* what) -> std::string {
        if (!first && !last) return kDash;
        return paper_cell(
            "dynamics", fmt::format("{} {}", arm, what), first ? "first" : "last",
            std::string_view(what) == "fidelity" || std::string_view(what) == "leakage" ? 1 : 2);
      };
      table.add({arm, std::to_string(step), std::to_string(point.seeds), percent(point.accuracy),
                 percent(point.mass), percent(point.fidelity, 1), percent(point.leakage, 1),
                 paper("accuracy"), paper("mass"), paper("fidelity"), paper("leakage")});
    }
    if (path.rbegin()->second.mass) last_mass[arm] = 100 * *path.rbegin()->second.mass;
    if (arm != "routeopd") continue;
    const auto change = [&](const char* what, std::optional<double> PathPoint::* member) {
      const std::optional<double> first = path.begin()->second.*member, last = path.rbegin()->second.*member;
      const std::string row = fmt::format("routeopd {}", what);
      if (first && last && path.size() > 1)
        verdicts.push_back(
            change_verdict(fmt::format("{} of routeopd over training, %", what),
                           {*paper_number("dynamics", row, "first"), *paper_number("dynamics", row, "last")},
                           {100 * *first, 100 * *last}, 2));
    };
    change("accuracy", &PathPoint::accuracy);
    change("mass", &PathPoint::mass);
    change("fidelity", &PathPoint::fidelity);
    change("leakage", &PathPoint::leakage);
  }
  for (const std::string& arm : main_arms()) {
    if (arm == "routeopd" || !paper_number("dynamics", arm + " mass", "last")) continue;
    if (!last_mass.contains(arm) || !last_mass.contains("routeopd")) continue;
    const auto level = [&](const std::string& name) {
      return Level{.name = name,
                   .paper = *paper_number("dynamics", name + " mass", "last"),
                   .here = last_mass[name],
                   .interval = {}};
    };
    const auto own = [](const StudyRun& run) -> std::optional<double> {
      if (run.files.probe.empty()) return std::nullopt;
      return number_at(run.files.probe.back(), {"mass"});
    };
    verdicts.push_back(
        level_verdict("mass at the end, %", level("routeopd"), level(arm), 2,
                      {.difference = {}, .per_seed = seed_differences(view.results, "routeopd", arm, own)}));
  }
  block.words =
      "Means over the seeds that were looked at on the way; mass on the untrained student's states.";
  if (table.rows().empty())
    block.missing.emplace_back("No run of a main arm has evaluations or probed steps that can be read.");
  else
    block.table = std::move(table);
  return block;
}

struct Endpoint {
  const char* key;
  const char* title;
  int digits;
  bool fraction;
};
constexpr std::array<Endpoint, 5> kEndpoints = {{{"policy_entropy", "policy entropy", 3, false},
                                                 {"response_tokens", "mean length", 1, false},
                                                 {"clip_ratio", "clip ratio %", 2, true},
                                                 {"grad_norm", "gradient norm", 3, false},
                                                 {"routed_share", "routed tokens %", 1, true}}};

// Arms that draw no routes: the share of states that could be routed says nothing of them.
bool routes_nothing(const std::string& arm) {
  const std::string preset(report::find_arm(arm)->preset());
  return routing::objective_from({{"arm", preset}}).loss != routing::Loss::kRouted;
}

Block stability_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("stability", "The last step of training, mean over seeds");
  std::vector<std::string> titles = {"arm"}, absent;
  for (const Endpoint& endpoint : kEndpoints) {
    titles.emplace_back(endpoint.title);
    titles.push_back(fmt::format("{}, paper", endpoint.title));
  }
  TextTable table = number_table(titles);
  std::vector<std::optional<double>> teacher;
  for (const std::string& arm : main_arms()) {
    bool any = false;
    Cells cells = {arm};
    for (const Endpoint& endpoint : kEndpoints) {
      const bool meant = std::string_view(endpoint.key) != "routed_share" || !routes_nothing(arm);
      const std::optional<double> value = meant ? last_metric(view.results, arm, endpoint.key) : std::nullopt;
      any = any || value;
      cells.push_back(endpoint.fraction ? percent(value, endpoint.digits) : number(value, endpoint.digits));
      const bool whole = std::string_view(endpoint.key) == "response_tokens";
      cells.push_back(paper_cell("stability", arm, endpoint.key, whole ? 0 : endpoint.digits));
    }
    if (!any) {
      absent.push_back(arm);
      continue;
    }
    table.add(std::move(cells));
    teacher.push_back(last_metric(view.results, arm, "teacher_entropy"));
  }
  for (const Endpoint& endpoint : kEndpoints) {
    const auto here = last_metric(view.results, "routeopd", endpoint.key),
               other = last_metric(view.results, "sampled_rkl", endpoint.key);
    const auto paper = paper_number("stability", "routeopd", endpoint.key),
               paper_other = paper_number("stability", "sampled_rkl", endpoint.key);
    if (!here || !other || !paper || !paper_other) continue;
    const auto own = [&endpoint](const StudyRun& run) -> std::optional<double> {
      if (run.files.metrics.empty()) return std::nullopt;
      return metric_named(endpoint.key, run.files.metrics.back());
    };
    const double unit = endpoint.fraction ? 100 : 1;
    std::string what = endpoint.title;
    if (what.ends_with(" %")) what.resize(what.size() - 2);
    verdicts.push_back(level_verdict(
        what, {.name = "routeopd", .paper = *paper, .here = unit * *here, .interval = {}},
        {.name = "sampled_rkl", .paper = *paper_other, .here = unit * *other, .interval = {}},
        endpoint.digits,
        {.difference = {}, .per_seed = seed_differences(view.results, "routeopd", "sampled_rkl", own)}));
  }
  if (const std::optional<double> entropy = mean_of(teacher))
    say(block.words,
        fmt::format("The teacher's entropy on the arms' last responses is {} on average (the paper's: {}).",
                    number(entropy, 3), paper_cell("endpoints", "teacher entropy", "last", 3)));
  const auto first = first_metric(view.results, "routeopd", "routed_share"),
             last = last_metric(view.results, "routeopd", "routed_share");
  if (first && last)
    verdicts.push_back(change_verdict("routed tokens of routeopd over training, %",
                                      {*paper_number("endpoints", "routeopd routed_share", "first"),
                                       *paper_number("endpoints", "routeopd routed_share", "last")},
                                      {100 * *first, 100 * *last}, 2));
  say_absent_runs(view.results, block, absent, "readable metrics of");
  if (!table.rows().empty()) block.table = std::move(table);
  return block;
}

}  // namespace

std::vector<Block> training_blocks(const StudyView& view, std::vector<Verdict>& verdicts) {
  std::vector<Block> blocks = shown_blocks({dynamics_block(view, verdicts)}, asked(view.results, "dynamics"));
  for (Block& block : shown_blocks({stability_block(view, verdicts)}, asked(view.results, "main")))
    blocks.push_back(std::move(block));
  return blocks;
}

}  // namespace routeopd::study
