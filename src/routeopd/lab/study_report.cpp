// The study's table, sentence and file.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "routeopd/lab/study.h"
#include "routeopd/report/text_table.h"

namespace routeopd::lab {
namespace {

// The arm's runs, seeds in their order; at most `most` of them.
std::vector<const ArmRun*> runs_of(const Study& study, const std::string& arm, std::size_t most = SIZE_MAX) {
  std::vector<const ArmRun*> runs;
  for (const ArmRun& run : study.runs) {
    if (run.arm == arm && runs.size() < most) runs.push_back(&run);
  }
  return runs;
}

// All seeds of an arm as one suite: a problem's samples are those of every seed, so that a drawn problem keeps them all.
grade::Correctness pooled(const std::vector<const ArmRun*>& runs) {
  grade::Correctness all;
  all.problems = runs.front()->correctness.problems;
  for (const ArmRun* run : runs) all.samples += run->correctness.samples;
  for (std::int64_t p = 0; p < all.problems; ++p) {
    for (const ArmRun* run : runs) {
      const auto row = run->correctness.correct_PS.begin() + p * run->correctness.samples;
      all.correct_PS.insert(all.correct_PS.end(), row, row + run->correctness.samples);
    }
  }
  return all;
}

std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.2f}", 100 * share);
}

std::string stage_ms(const Json& seconds, const char* stage) {
  return fmt::format("{:.0f}", 1000 * seconds.value(stage, 0.0));
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

}  // namespace

std::vector<ArmSummary> summarize(const Study& study) {
  std::vector<ArmSummary> rows;
  for (const std::string& arm : study.options.arms) {
    const std::vector<const ArmRun*> runs = runs_of(study, arm);
    if (runs.empty()) continue;  // still to come
    const grade::Correctness first = pooled(runs_of(study, study.options.arms.front(), runs.size()));
    const grade::Correctness mine = pooled(runs);
    ArmSummary row;
    row.arm = arm;
    row.average = grade::average(mine);
    row.contrast = grade::paired_contrast(std::span(&first, 1), std::span(&mine, 1), grade::Bootstrap{});
    for (const ArmRun* run : runs) {
      row.per_seed.push_back(grade::average(run->correctness));
      row.mass_before += run->mass_before / static_cast<double>(runs.size());
      row.mass_after += run->mass_after / static_cast<double>(runs.size());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string study_table(const Study& study) {
  using report::Align;
  const std::string average = fmt::format("Avg@{} %", study.options.samples);
  report::TextTable table({{"arm", Align::kLeft},
                           {average, Align::kRight},
                           {fmt::format("over {} [95 %]", study.options.arms.front()), Align::kRight},
                           {"on the way", Align::kLeft},
                           {"mass", Align::kLeft},
                           {"rollout ms", Align::kRight},
                           {"score", Align::kRight},
                           {"route", Align::kRight},
                           {"learn", Align::kRight},
                           {"a step", Align::kRight},
                           {"peak MB", Align::kRight}});
  table.add({"base (untrained)", percent(study.base), "", "", "", "", "", "", "", "", ""});
  for (const ArmSummary& row : summarize(study)) {
    const ArmRun& run = *runs_of(study, row.arm).front();
    std::string path;
    for (const auto& [step, value] : run.path) path += (path.empty() ? "" : " > ") + percent(value);
    const bool reference = row.arm == study.options.arms.front();
    table.add({row.arm, percent(row.average),
               reference ? ""
                         : fmt::format("{} [{}, {}]", signed_percent(row.contrast.mean),
                                       signed_percent(row.contrast.low), signed_percent(row.contrast.high)),
               path, fmt::format("{:.3f} > {:.3f}", row.mass_before, row.mass_after),
               stage_ms(run.seconds, "rollout"), stage_ms(run.seconds, "score"),
               stage_ms(run.seconds, "route"), stage_ms(run.seconds, "learn"), stage_ms(run.seconds, "total"),
               fmt::format("{:.0f}", static_cast<double>(run.peak_bytes) / 1e6)});
  }
  table.add({"teacher", percent(study.teacher), "", "", "", "", "", "", "", "", ""});
  return table.text();
}

std::string study_sentence(const Study& study) {
  std::vector<std::string> better, worse, open;
  for (const ArmSummary& row : summarize(study)) {
    if (row.arm == study.options.arms.front()) continue;
    (row.contrast.low > 0 ? better : row.contrast.high < 0 ? worse : open).push_back(row.arm);
  }
  std::vector<std::string> parts;
  if (!better.empty())
    parts.push_back(listed(better) + (better.size() == 1 ? " lies" : " lie") + " above it");
  if (!worse.empty()) parts.push_back(listed(worse) + (worse.size() == 1 ? " lies" : " lie") + " below it");
  if (!open.empty()) parts.push_back("for " + listed(open) + " the interval holds 0, so nothing is shown");
  return fmt::format(
      "Against {}: {}; the intervals are over held-out problems for {}, so they say nothing of how {} would "
      "fare, nor of differences among the other arms.",
      study.options.arms.front(), listed(parts),
      study.options.seeds.size() == 1
          ? std::string("one training seed")
          : fmt::format("these {} training seeds pooled", study.options.seeds.size()),
      study.options.seeds.size() == 1 ? "another seed" : "other seeds");
}

Json study_json(const Study& study) {
  Json rows = Json::array();
  for (const ArmSummary& row : summarize(study)) {
    rows.push_back(
        {{"arm", row.arm},
         {"avg", row.average},
         {"contrast", {{"mean", row.contrast.mean}, {"low", row.contrast.low}, {"high", row.contrast.high}}},
         {"per_seed", row.per_seed},
         {"mass_before", row.mass_before},
         {"mass_after", row.mass_after}});
  }
  Json runs = Json::array();
  for (const ArmRun& run : study.runs) {
    Json path = Json::array();
    for (const auto& [step, value] : run.path) path.push_back({{"step", step}, {"avg", value}});
    runs.push_back({{"arm", run.arm},
                    {"seed", run.seed},
                    {"path", path},
                    {"mass_before", run.mass_before},
                    {"mass_after", run.mass_after},
                    {"seconds", run.seconds},
                    {"peak_bytes", run.peak_bytes}});
  }
  return {{"reference", study.options.arms.front()},
          {"base", study.base},
          {"teacher", study.teacher},
          {"samples", study.options.samples},
          {"steps", study.options.steps},
          {"lr", study.options.lr},
          {"k", study.options.k},
          {"arms", rows},
          {"runs", runs}};
}

}  // namespace routeopd::lab
