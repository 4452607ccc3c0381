// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/ablation_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "routeopd/report/arms.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/paper_numbers.h"
#include "routeopd/study/probe_contrast.h"

namespace routeopd::study {
namespace {

// `paper` is the id of the paper's table.
Block ablation_block(const StudyView& view, const std::string& paper, const std::string& title,
                     const std::vector<std::string>& names, std::vector<Verdict>& verdicts) {
  Block block = titled("ablation-" + paper, title);
  TextTable table = number_table({"variant", average_name(view) + " %", "seeds", "sd over seeds",
                                  fmt::format("over {} [95 %]", kAblationReference), "paper Avg@16 %",
                                  fmt::format("paper over {}", kAblationReference)});
  std::vector<std::string> absent;
  for (const std::string& name : names) {
    const std::optional<Accuracy> accuracy = view.grades.accuracy(name);
    if (!accuracy) {
      absent.push_back(name);
      continue;
    }
    const bool is_reference = name == kAblationReference;
    const std::optional<Contrast> contrast =
        is_reference ? std::nullopt : view.grades.contrast(kAblationReference, name);
    const std::optional<double> there =
        is_reference ? std::nullopt : paper_difference(paper, name, kAblationReference, "avg");
    table.add({name, percent(accuracy->average.mean), std::to_string(accuracy->per_seed.size()),
               percent(spread_of(accuracy->per_seed)), contrast ? points(contrast->difference) : kDash,
               paper_cell(paper, name, "avg", 2), signed_number(there, 2)});
    if (contrast && there)
      verdicts.push_back(effect_verdict("accuracy", name, kAblationReference, *there, contrast->difference));
  }
  block.words = fmt::format("Paired with {} on the same problems and seeds; a dash: not in the paper.",
                            kAblationReference);
  say_absent_runs(view.results, block, absent, "readable evaluation of");
  if (!table.rows().empty()) block.table = std::move(table);
  return block;
}

// The variants of a table that the part ablations trains: the others are in it to be compared with.
bool has_ablations(const StudyView& view, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const report::Arm* const arm = report::find_arm(name);
    if (arm == nullptr || arm->main) return false;
    return was_run(view.results, name) || (asked(view.results, "ablations") && !left_out(view.results, name));
  });
}

// What a probe's row says of how targets were met; fractions but for the MAE (log-odds).
struct Realization {
  const char* key;
  const char* title;
  bool fraction;
};
constexpr std::array<Realization, 4> kRealization = {{{"cycle_violations", "cycle violations %", true},
                                                      {"target_mae", "target MAE", false},
                                                      {"completion", "completion %", true},
                                                      {"overshoot", "overshoot %", true}}};

std::optional<double> realized(const ProbeFiles& probe, const std::string& name, const Realization& what) {
  const bool of_arm = std::string_view(what.key) == "cycle_violations";
  return number_at(of_arm ? probe.arm(name) : probe.row(name, kStep), {what.key});
}

Block realization_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("target-realization", "How targets are realized by one fresh AdamW step");
  const ProbeFiles* const probe = view.results.probe("arms");
  if (probe == nullptr || probe->probe.is_null()) {
    block.missing.emplace_back("The study has no readable probe \"arms\".");
    return block;
  }
  std::vector<std::string> titles = {"targets"};
  for (const Realization& what : kRealization) {
    titles.emplace_back(what.title);
    titles.push_back(fmt::format("{}, paper", what.title));
  }
  TextTable table = number_table(titles);
  std::vector<std::string> absent;
  for (const std::string& name : paper_rows_and_crossings("realization")) {
    if (probe->row(name, kStep).is_null()) {
      if (!left_out(view.results, name)) absent.push_back(name);
      continue;
    }
    Cells cells = {name};
    for (const Realization& what : kRealization) {
      const std::optional<double> value = realized(*probe, name, what);
      cells.push_back(what.fraction ? percent(value, 1) : number(value, 3));
      cells.push_back(paper_cell("realization", name, what.key, what.fraction ? 1 : 3));
    }
    table.add(std::move(cells));
  }
  // Each row of the paper's against the next, which is to be better.
  const std::vector<PaperRow>& rows = paper_table("realization").rows;
  for (std::size_t row = 0; row + 1 < rows.size(); ++row) {
    const std::string &name = rows[row].name, &other = rows[row + 1].name;
    for (const Realization& what : kRealization) {
      const auto here = realized(*probe, name, what), there = realized(*probe, other, what);
      const auto paper = paper_number("realization", name, what.key),
                 paper_other = paper_number("realization", other, what.key);
      if (!here || !there || *paper == *paper_other) continue;
      const double unit = what.fraction ? 100 : 1;
      std::string words = what.title;
      if (what.fraction) words.resize(words.size() - 2);
      verdicts.push_back(level_verdict(
          words, {.name = other, .paper = *paper_other, .here = unit * *there, .interval = {}},
          {.name = name, .paper = *paper, .here = unit * *here, .interval = {}}, what.fraction ? 1 : 3));
    }
  }
  block.words = "Each row of the paper's is to be better than the one before it.";
  say_absent(block, absent, "fresh AdamW step in the probe for");
  if (!table.rows().empty()) block.table = std::move(table);
  return block;
}

struct ConcentrationBin {
  const char* name;
  double low, high;  // the last one holds its end

  bool holds(double value) const { return value >= low && (value < high || (high == 1 && value <= 1)); }
};
constexpr std::array<ConcentrationBin, 4> kBins = {
    {{"[0, .25)", 0, 0.25}, {"[.25, .5)", 0.25, 0.5}, {"[.5, .75)", 0.5, 0.75}, {"[.75, 1]", 0.75, 1}}};

Block accuracy_by_concentration(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block =
      titled("accuracy-by-concentration", "By the concentration of the teacher's demand on a problem");
  if (view.results.concentration.empty()) {
    block.missing.emplace_back("The study has no readable concentration of its problems.");
    return block;
  }
  std::map<std::pair<std::string, std::string>, double> concentration;
  for (const ProblemConcentration& problem : view.results.concentration)
    concentration[{problem.suite, problem.problem}] = problem.concentration;
  TextTable table =
      number_table({"concentration", "arm", "problems", "states", "budget", average_name(view) + " %",
                    fmt::format("over {} [95 %]", kAblationReference), "paper states", "paper budget",
                    "paper Avg@16 %", fmt::format("paper over {}", kAblationReference)});
  std::vector<std::string> empty;
  for (const std::string& arm : arm_and_crossings("routeopd")) {
    const bool in_paper = arm == "routeopd";
    for (const ConcentrationBin& bin : kBins) {
      std::size_t problems = 0;
      std::int64_t states = 0;
      double budget = 0;  // mean over states
      for (const ProblemConcentration& problem : view.results.concentration) {
        if (!bin.holds(problem.concentration)) continue;
        ++problems;
        states += problem.states;
        budget += problem.budget * static_cast<double>(problem.states);
      }
      const auto inside = [&](std::size_t suite, const std::string& problem) {
        const auto found = concentration.find({view.grades.suites()[suite], problem});
        return found != concentration.end() && bin.holds(found->second);
      };
      const std::optional<grade::Interval> average = view.grades.average(arm, inside);
      if (!average && !in_paper) continue;
      const std::optional<Contrast> contrast = view.grades.contrast(kAblationReference, arm, inside);
      const bool few = problems < kFewestObservations;
      const double paper = *paper_number("concentration", bin.name, "contrast");
      const auto beside = [&](const char* column, int digits) {
        return in_paper ? paper_cell("concentration", bin.name, column, digits) : kDash;
      };
      table.add({bin.name, arm, std::to_string(problems), std::to_string(states),
                 states > 0 ? number(budget / static_cast<double>(states), 3) : kDash,
                 average ? percent(average->mean) : kDash,
                 !contrast ? kDash
                 : few     ? points(contrast->difference.mean)
                           : points(contrast->difference),
                 beside("states", 0), beside("budget", 3), beside("routeopd", 2),
                 in_paper ? signed_number(paper, 2) : kDash});
      if (!in_paper) continue;
      if (problems == 0) empty.emplace_back(bin.name);
      if (!contrast) continue;
      verdicts.push_back(effect_verdict(fmt::format("accuracy at concentration {}", bin.name), "routeopd",
                                        kAblationReference, paper, contrast->difference));
      if (!few) continue;
      verdicts.back().here = points(contrast->difference.mean);
      verdicts.back().outcome = fmt::format("too few problems ({})", problems);
    }
  }
  if (!empty.empty())
    say(block.words,
        fmt::format("No problem lies in {}: what the paper has there cannot be seen here.", listed(empty)));
  say(block.words,
      "A problem's concentration is the mass-weighted mean over the untrained student's states on it; the "
      "paper does not say how it puts accuracy into bins of states.");
  block.table = std::move(table);
  return block;
}

// The destinations of the paper's table; one that it does not have stands after its neighbour in the list of
// arms.
std::vector<std::string> destinations() {
  std::vector<std::string> names = paper_rows_and_crossings("destination");
  std::string before;
  for (const report::Arm& arm : report::kArms) {
    if (arm.component != report::Component::kDestination) continue;
    if (std::find(names.begin(), names.end(), arm.name) == names.end()) {
      const auto neighbour = std::find(names.begin(), names.end(), before);
      names.insert(neighbour == names.end() ? neighbour : neighbour + 1, std::string(arm.name));
    }
    before = arm.name;
  }
  return names;
}

}  // namespace

std::vector<Block> ablation_blocks(const StudyView& view, std::vector<Verdict>& verdicts) {
  std::vector<std::string> objectives = paper_rows_and_crossings("objective");
  for (const std::string& arm : own_arms()) {
    if (std::find(objectives.begin(), objectives.end(), arm) == objectives.end()) objectives.push_back(arm);
  }
  std::vector<Block> blocks;
  const auto add = [&](const std::string& paper, const std::string& title,
                       const std::vector<std::string>& names) {
    if (has_ablations(view, names)) blocks.push_back(ablation_block(view, paper, title, names, verdicts));
  };
  add("destination", "Where the probability goes", destinations());
  add("objective", "Which side is moved, and how pairs are weighted and bounded", objectives);
  add("budget", "How much is moved", paper_rows_and_crossings("budget"));
  for (Block& block :
       shown_blocks({realization_block(view, verdicts), accuracy_by_concentration(view, verdicts)},
                    asked(view.results, "mechanism")))
    blocks.push_back(std::move(block));
  return blocks;
}

}  // namespace routeopd::study
