//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/study_summary.h"

#include <algorithm>
#include <map>

#include "routeopd/grade/eval_files.h"
#include "routeopd/report/text_table.h"

namespace routeopd::lab {
namespace {

// Evaluations of one variant by seed, suites by name.
using BySeed = std::map<std::uint64_t, std::vector<grade::Correctness>>;

std::vector<grade::Correctness> read_eval(const std::filesystem::path& directory) {
  std::vector<grade::Correctness> suites;
  for (grade::EvalSuite& suite : grade::read_eval_directory(directory).suites)
    suites.push_back(std::move(suite.correctness));
  return suites;
}

double average(const std::vector<grade::Correctness>& suites) {
  double sum = 0;
  for (const grade::Correctness& suite : suites) sum += grade::average(suite);
  return sum / static_cast<double>(suites.size());
}

// B - A over the seeds that both have, all seeds of a problem in one draw.
grade::Interval contrast(const BySeed& a, const BySeed& b) {
  std::vector<grade::WeightedContrast> terms;
  for (const auto& [seed, suites] : b) {
    const auto other = a.find(seed);
    if (other == a.end()) continue;
    for (std::size_t s = 0; s < suites.size(); ++s)
      terms.push_back({&other->second[s], &suites[s], static_cast<std::uint32_t>(s), 1});
  }
  return terms.empty() ? grade::Interval{} : grade::weighted_contrast(terms, grade::Bootstrap{});
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

std::string sentence(const StudySummary& summary) {
  std::vector<std::string> better, worse, open;
  for (const VariantSummary& row : summary.variants) {
    if (row.name == summary.reference) continue;
    (row.contrast.low > 0 ? better : row.contrast.high < 0 ? worse : open).push_back(row.name);
  }
  std::vector<std::string> parts;
  if (!better.empty())
    parts.push_back(fmt::format("{} {} above it", listed(better), better.size() == 1 ? "lies" : "lie"));
  if (!worse.empty())
    parts.push_back(fmt::format("{} {} below it", listed(worse), worse.size() == 1 ? "lies" : "lie"));
  if (!open.empty())
    parts.push_back(fmt::format("for {} the interval holds 0, so nothing is shown", listed(open)));
  return fmt::format(
      "Against {}: {}; the intervals are over problems for these training seeds, and say nothing of how "
      "others would "
      "fare.\n",
      summary.reference, listed(parts));
}

}  // namespace

StudySummary summarize(const StudyFiles& files) {
  StudySummary summary;
  summary.samples = files.options().samples;
  const Json& manifest = files.manifest();
  const auto avg = [&](const char* whose) {
    const Json& evals = manifest["evals"];
    return evals.contains(whose) ? average(read_eval(files.path() / evals[whose].get<std::string>())) : -1;
  };
  summary.base = avg("base");
  summary.teacher = avg("teacher");
  std::vector<std::string> names;  // in the order of the study
  std::map<std::string, BySeed> runs;
  for (const Json& run : manifest["runs"]) {
    if (!run["complete"].get<bool>() || !run["eval"].is_string()) continue;
    const auto name = run["name"].get<std::string>();
    if (runs.count(name) == 0) names.push_back(name);
    runs[name][run["seed"].get<std::uint64_t>()] = read_eval(files.path() / run["eval"].get<std::string>());
  }
  if (!names.empty()) {
    const std::vector<std::string>& arms = files.options().arms;
    const std::string wanted = arms.empty() ? "sampled_rkl" : arms.front();
    summary.reference = runs.count(wanted) > 0 ? wanted : names.front();
  }
  for (const std::string& name : names) {
    VariantSummary& row = summary.variants.emplace_back();
    row.name = name;
    for (const auto& [seed, suites] : runs[name]) row.per_seed.push_back(average(suites));
    for (const double one : row.per_seed) row.average += one / static_cast<double>(row.per_seed.size());
    row.contrast = contrast(runs[summary.reference], runs[name]);
  }
  for (const auto& item : manifest["parts"].items()) {
    if (item.value().contains("note"))
      summary.notes.push_back(fmt::format("{}: {}", item.key(), item.value()["note"].get<std::string>()));
  }
  return summary;
}

std::string summary_text(const StudySummary& summary) {
  using report::Align;
  std::string text;
  if (!summary.variants.empty()) {
    report::TextTable table({{"arm", Align::kLeft},
                             {fmt::format("Avg@{} %", summary.samples), Align::kRight},
                             {"seeds", Align::kRight},
                             {fmt::format("over {} [95 %]", summary.reference), Align::kRight}});
    const auto percent = [](double share) { return fmt::format("{:.1f}", 100 * share); };
    if (summary.base >= 0) table.add({"base (untrained)", percent(summary.base), "", ""});
    for (const VariantSummary& row : summary.variants)
      table.add({row.name, percent(row.average), std::to_string(row.per_seed.size()),
                 row.name == summary.reference
                     ? ""
                     : fmt::format("{:+.2f} [{:+.2f}, {:+.2f}]", 100 * row.contrast.mean,
                                   100 * row.contrast.low, 100 * row.contrast.high)});
    if (summary.teacher >= 0) table.add({"teacher", percent(summary.teacher), "", ""});
    text = table.text();
    if (summary.variants.size() > 1) text += fmt::format("\n{}", sentence(summary));
  }
  for (const std::string& note : summary.notes) text += fmt::format("{}\n", note);
  return text;
}

Json json_of(const StudySummary& summary) {
  const auto share = [](double value) { return value < 0 ? Json() : Json(value); };
  Json arms = Json::array();
  for (const VariantSummary& row : summary.variants)
    arms.push_back({{"name", row.name},
                    {"avg", row.average},
                    {"per_seed", row.per_seed},
                    {"contrast",
                     {{"mean", row.contrast.mean}, {"low", row.contrast.low}, {"high", row.contrast.high}}}});
  return {{"reference", summary.reference},
          {"base", share(summary.base)},
          {"teacher", share(summary.teacher)},
          {"samples", summary.samples},
          {"arms", arms},
          {"notes", summary.notes}};
}

}  // namespace routeopd::lab
