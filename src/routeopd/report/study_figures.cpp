//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/study_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/state_pictures.h"
#include "routeopd/report/charts/study_charts.h"
#include "routeopd/report/study_table_parts.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

constexpr double kFullSupport = 1e9;  // behind every number on the line of the k sweep

// Arms whose way is followed and whose responses are labelled.
constexpr std::array<const char*, 8> kMainArms = {"sampled_rkl", "full_rkl", "full_fkl",  "fixed_mid",
                                                  "routeopd",    "exact",    "union_rkl", "union_fkl"};

// Arms of the phase portrait: the main ones and the controls that send mass elsewhere.
constexpr std::array<const char*, 11> kPortraitArms = {
    "sampled_rkl", "full_rkl", "full_fkl",  "rank_matched", "random_background", "fixed_mid",
    "routeopd",    "exact",    "union_rkl", "union_fkl",    "uniform_deficit"};

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Variants of the component contrasts, each against fixed_mid; `paper` is the paper's table that has them.
struct ContrastBlock {
  const char* title;
  const char* paper;
  std::vector<const char*> names;
};
const std::array<ContrastBlock, 5> kContrasts = {
    {{"Destination",
      "destination",
      {"uniform_deficit", "student_proportional", "rank_matched", "random_background"}},
     {"Update form",
      "objective",
      {"source_only", "destination_only", "source_only-one", "destination_only-one", "no_mass"}},
     {"Target", "objective", {"independent_clipping"}},
     {"Budget", "budget", {"fixed_low", "fixed_high", "reversed", "routeopd"}},
     {"Not in the paper", "objective", {"exact", "union_rkl", "union_fkl"}}}};

std::optional<double> accuracy_of(const EvalFiles& eval) {
  const auto average = number_at(eval.summary, {"avg"});
  return average ? std::optional(100 * *average) : std::nullopt;
}

std::optional<double> overhead_of(const std::optional<double>& ratio) {
  return ratio ? std::optional(100 * (*ratio - 1)) : std::nullopt;
}

double support_of(const Json& arm) {
  const auto k = arm.find("k");
  if (k == arm.end()) return 0;
  if (k->is_string()) return *k == "full" ? kFullSupport : 0;
  return k->is_number() ? k->get<double>() : 0;
}

Block component_contrasts(const StudyGrades& grades) {
  std::vector<ContrastPoint> points;
  for (const ContrastBlock& block : kContrasts) {
    for (const char* const name : block.names) {
      const std::optional<Contrast> contrast = grades.contrast("fixed_mid", name);
      if (!contrast) continue;
      const grade::Interval& difference = contrast->difference;
      points.push_back({.block = block.title,
                        .name = name,
                        .contrast = {100 * difference.mean, 100 * difference.low, 100 * difference.high},
                        .paper = paper_difference(block.paper, name, "fixed_mid", "avg")});
    }
  }
  return component_contrasts_figure(points);
}

Block cost_tradeoff(const StudyFiles& study, const StudyGrades& grades) {
  std::vector<CostPoint> points;
  for (const Json& arm : list_at(study.cost, "arms")) {
    const std::string name = text_at(arm, "name");
    const auto overhead = overhead_of(number_at(arm, {"relative_total", "mean"}));
    const bool swept = name == "routeopd" || name.starts_with("routeopd-k");
    if (!overhead || !(swept || among(kMainArms, name))) continue;
    const std::optional<Accuracy> accuracy = grades.accuracy(name);
    if (!accuracy) continue;
    points.push_back({.name = name,
                      .overhead = {*overhead, overhead_of(number_at(arm, {"relative_total", "low"})),
                                   overhead_of(number_at(arm, {"relative_total", "high"}))},
                      .accuracy = {100 * accuracy->average.mean, {}, {}},
                      .peak_bytes = number_at(arm, {"peak_bytes"}).value_or(0),
                      .k = swept ? support_of(arm) : 0});
  }
  return cost_tradeoff_figure(points);
}

Block phase_portrait(const StudyFiles& study, const StudyGrades& grades) {
  std::vector<PhasePoint> arms;
  if (const ProbeFiles* const probe = study.probe("arms")) {
    for (const Json& row : list_at(probe->probe, "rows")) {
      const auto fidelity = number_at(row, {"fidelity", "mean"}),
                 leakage = number_at(row, {"leakage", "mean"});
      if (text_at(row, "intervention") != "fresh_adamw" || !fidelity || !leakage) continue;
      const std::string name = text_at(row, "name");
      if (!among(kPortraitArms, name)) continue;
      const std::optional<Accuracy> accuracy = grades.accuracy(name);
      arms.push_back({name, 100 * *fidelity, 100 * *leakage,
                      accuracy ? std::optional(100 * accuracy->average.mean) : std::nullopt});
    }
  }
  std::vector<PhaseCheckpoint> checkpoints;
  for (const StudyRun* run : study.runs_of("routeopd")) {
    for (const Json& line : run->files.probe) {
      const auto fidelity = number_at(line, {"fidelity", "mean"}),
                 leakage = number_at(line, {"leakage", "mean"});
      const auto step = whole_at(line, "step");
      if (step && fidelity && leakage) checkpoints.push_back({*step, 100 * *fidelity, 100 * *leakage});
    }
    if (!checkpoints.empty()) break;  // one run's way; several would cross
  }
  return phase_portrait_figure(arms, checkpoints);
}

Block dynamics(const StudyFiles& study) {
  static constexpr const char* kAccuracy = "Accuracy, Avg@n (%)";
  std::vector<DynamicsPoint> accuracy, others;
  for (const char* const name : kMainArms) {
    for (const StudyRun* run : study.runs_of(name)) {
      if (!run->complete || (run->files.probe.size() < 2 && run->files.evals.size() < 2)) continue;
      const bool starts = !run->files.evals.empty() && run->files.evals.front().step == 0;
      if (study.base && !starts) {
        if (const auto value = accuracy_of(*study.base)) accuracy.push_back({name, 0, kAccuracy, *value});
      }
      for (const EvalFiles& eval : run->files.evals) {
        const auto value = accuracy_of(eval);
        if (eval.step && value) accuracy.push_back({name, *eval.step, kAccuracy, *value});
      }
      for (const Json& line : run->files.probe) {
        const auto step = whole_at(line, "step");
        if (!step) continue;
        if (const auto mass = number_at(line, {"mass"}))
          others.push_back({name, *step, "Mismatch mass", *mass});
        if (const auto value = number_at(line, {"fidelity", "mean"}))
          others.push_back({name, *step, "Routing fidelity (%)", 100 * *value});
        if (const auto value = number_at(line, {"leakage", "mean"}))
          others.push_back({name, *step, "Background leakage (%)", 100 * *value});
      }
    }
  }
  accuracy.insert(accuracy.end(), others.begin(), others.end());
  return dynamics_figure(accuracy);
}

Block composition(const StudyFiles& study) {
  std::vector<LabelShare> shares;
  const auto add = [&](const std::string& name, const std::vector<const EvalFiles*>& evals) {
    for (const auto& [label, share] : label_shares(evals)) shares.push_back({name, label, share});
  };
  if (study.base) add("untrained student", {&*study.base});
  for (const char* const name : kMainArms) {
    std::vector<const EvalFiles*> evals;
    for (const StudyRun* run : study.runs_of(name)) evals.push_back(&run->eval);
    add(name, evals);
  }
  if (study.teacher) add("teacher", {&*study.teacher});
  return composition_figure(shares);
}

}  // namespace

std::vector<std::pair<std::string, double>> label_shares(const std::vector<const EvalFiles*>& evals) {
  std::map<judge::Label, std::int64_t> counts;
  std::int64_t total = 0;
  for (const EvalFiles* eval : evals) {
    for (const ResponseLabel& label : eval->labels) {
      ++counts[label.label];
      ++total;
    }
  }
  std::vector<std::pair<std::string, double>> shares;
  for (const auto& [label, count] : counts)
    shares.emplace_back(judge::name_of(label), 100 * static_cast<double>(count) / static_cast<double>(total));
  if (!shares.empty()) return shares;
  double right = 0, readable = 0;
  int count = 0;
  for (const EvalFiles* eval : evals) {
    const auto average = number_at(eval->summary, {"avg"}),
               format = number_at(eval->summary, {"average", "format_rate"});
    if (!average || !format) continue;
    right += *average;
    readable += *format;
    ++count;
  }
  if (count == 0) return {};
  return {{"correct", 100 * right / count},
          {"wrong", 100 * (readable - right) / count},
          {"format", 100 * (1 - readable / count)}};
}

Block route_records_of(const ProbeFiles& probe, const std::string& name, const std::string& intervention) {
  std::map<std::int64_t, double> concentrations;
  for (const Json& state : probe.states) {
    const auto number = whole_at(state, "state");
    const auto concentration = number_at(state, {"concentration"});
    if (number && concentration) concentrations[*number] = *concentration;
  }
  std::vector<RoutePoint> points;
  for (const Json& route : probe.routes) {
    const auto target = number_at(route, {"target"}), achieved = number_at(route, {"achieved"});
    const auto state = whole_at(route, "state");
    if (text_at(route, "name") != name || text_at(route, "intervention") != intervention || !target ||
        !achieved)
      continue;
    const auto known = state ? concentrations.find(*state) : concentrations.end();
    points.push_back(
        {*target, *achieved, known != concentrations.end() ? std::optional(known->second) : std::nullopt});
  }
  std::string how = intervention;
  std::replace(how.begin(), how.end(), '_', ' ');
  return route_records_figure(points, fmt::format("{}, {}", shown_series(name), how));
}

Section study_figures(const StudyFiles& study) {
  Section section{.title = "Figures", .blocks = {}};
  const StudyGrades grades(study);
  const ProbeFiles none;
  const ProbeFiles* const arms = study.probe("arms");
  const auto pictured = std::find_if(study.probes.begin(), study.probes.end(),
                                     [](const StudyProbe& probe) { return probe.files.example.is_object(); });
  const Json example = pictured == study.probes.end() ? Json() : pictured->files.example;
  section.blocks.push_back(cost_tradeoff(study, grades));
  section.blocks.push_back(component_contrasts(grades));
  section.blocks.push_back(phase_portrait(study, grades));
  section.blocks.push_back(dynamics(study));
  section.blocks.push_back(composition(study));
  section.blocks.push_back(route_records_of(arms != nullptr ? *arms : none, "routeopd", "fresh_adamw"));
  section.blocks.push_back(scalar_credit_figure(example));
  section.blocks.push_back(operator_figure(example));
  return section;
}

}  // namespace routeopd::report
