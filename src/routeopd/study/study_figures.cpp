// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_figures.h"

#include <algorithm>

#include "routeopd/report/arms.h"
#include "routeopd/report/charts/eval_charts.h"
#include "routeopd/report/charts/route_records.h"
#include "routeopd/report/charts/state_pictures.h"
#include "routeopd/study/component_contrasts.h"
#include "routeopd/study/cost_tradeoff.h"
#include "routeopd/study/phase_portrait.h"
#include "routeopd/study/probe_contrast.h"
#include "routeopd/study/study_suites.h"

namespace routeopd::study {
namespace {

std::optional<double> accuracy_of(const EvalFiles& eval) {
  const auto average = number_at(eval.summary, {"avg"});
  return average ? std::optional(100 * *average) : std::nullopt;
}

Block dynamics(const StudyResults& study) {
  static constexpr const char* kAccuracy = "Accuracy, Avg@n (%)";
  std::vector<report::CurvePoint> accuracy, others;
  for (const std::string& name : main_arms()) {
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

Block composition(const StudyResults& study) {
  std::vector<report::LabelShare> shares;
  const auto add = [&](const std::string& name, const std::vector<const EvalFiles*>& evals) {
    for (const auto& [label, share] : report::label_shares(evals)) shares.push_back({name, label, share});
  };
  if (study.base) add("untrained student", {&*study.base});
  for (const std::string& name : main_arms()) {
    std::vector<const EvalFiles*> evals;
    for (const StudyRun* run : study.runs_of(name)) evals.push_back(&run->eval);
    add(name, evals);
  }
  if (study.teacher) add("teacher", {&*study.teacher});
  return report::composition_figure(shares);
}

// Every figure of a study that was run.
std::vector<Block> figures_of(const StudyResults& study) {
  std::vector<Block> blocks;
  const StudyGrades grades(study);
  const ProbeFiles none;
  const ProbeFiles* const arms = study.probe("arms");
  const auto pictured = std::find_if(study.probes.begin(), study.probes.end(),
                                     [](const StudyProbe& probe) { return probe.files.example.is_object(); });
  const Json example = pictured == study.probes.end() ? Json() : pictured->files.example;
  const auto add = [&](Block block, bool asked_for) {
    if (asked_for || !block.chart.is_null()) blocks.push_back(std::move(block));
  };
  const bool probed = asked(study, "mechanism"), routed = probed && !left_out(study, "routeopd");
  add(cost_tradeoff(study, grades), asked(study, "cost") && asked(study, "main"));
  // Without an ablation it would have the main arms alone.
  const bool ablated = std::any_of(study.runs.begin(), study.runs.end(), [](const StudyRun& run) {
    const report::Arm* const arm = report::find_arm(run.name);
    return arm != nullptr && !arm->main;
  });
  if (ablated || asked(study, "ablations")) add(component_contrasts(grades), ablated);
  if (arms != nullptr || probed) add(phase_portrait(study, grades), probed);
  add(dynamics(study), asked(study, "dynamics"));
  if (asked(study, "behaviour")) add(composition(study), true);
  add(report::route_records_of(arms != nullptr ? *arms : none, "routeopd", kStep), routed);
  add(report::scalar_credit_figure(example), routed);
  add(report::operator_figure(example), routed);
  return blocks;
}

}  // namespace

Block dynamics_figure(const std::vector<report::CurvePoint>& points) {
  Block block = titled("dynamics", "Training dynamics");
  if (points.empty()) {
    block.missing.emplace_back("No run was measured along its way: the part dynamics does it.");
    return block;
  }
  block.words =
      "Accuracy, mismatch mass on the starting student's states, and where an update from each checkpoint "
      "goes. Lines are means "
      "over the seeds that were looked at on the way (a study follows its first); a band spans them where "
      "there are several.";
  report::draw_curves(
      points,
      "Small line charts over training steps: accuracy, mismatch mass, fidelity and leakage, a line an arm.",
      block);
  return block;
}

Section study_figures(const StudyResults& study, const std::vector<std::string>& suites) {
  Section section{.title = "Figures", .blocks = figures_of(study)};
  const StudyBySuite split = by_suite(study, suites);
  if (split.pooled) {
    for (Block& own : figures_of(*split.pooled)) {
      const auto same = std::find_if(section.blocks.begin(), section.blocks.end(), [&](const Block& block) {
        return block.id == own.id && is_by_suite(own.id);
      });
      if (same != section.blocks.end()) *same = std::move(own);
    }
  }
  add_suites(split, figures_of, section.blocks);
  return section;
}

}  // namespace routeopd::study
