// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/probe_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "routeopd/grade/statistics.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/series_charts.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

struct Measure {
  const char* key;
  const char* title;
};
constexpr std::array<Measure, 2> kMeasures = {{{"fidelity", "Fidelity (%)"}, {"leakage", "Leakage (%)"}}};

std::string intervention_words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

}  // namespace

Block probe_distributions_figure(const std::vector<ProbeFiles>& probes) {
  Block block = titled("probe-distributions", "Where updates go, over states");
  std::vector<RangeRow> rows;
  for (const Measure& measure : kMeasures) {
    for (const ProbeFiles& probe : probes) {
      std::vector<std::string> names;
      std::map<std::string, std::vector<double>> values;
      for (const Json& state : probe.states) {
        for (const Json& value : list_at(state, "values")) {
          const auto number = number_at(value, {measure.key});
          if (!number || !std::isfinite(*number)) continue;
          std::string name = fmt::format("{}, {}", shown_series(text_at(value, "name")),
                                         intervention_words(text_at(value, "intervention")));
          if (probes.size() > 1) name = fmt::format("{}: {}", probe.shown, name);
          if (!values.contains(name)) names.push_back(name);
          values[name].push_back(100 * *number);
        }
      }
      for (const std::string& name : names) {
        std::vector<double>& sorted = values[name];
        std::sort(sorted.begin(), sorted.end());
        rows.push_back({.group = measure.title,
                        .name = short_text(name, 60),
                        .middle = grade::quantile(sorted, 0.5),
                        .low = grade::quantile(sorted, 0.1),
                        .high = grade::quantile(sorted, 0.9),
                        .inner_low = grade::quantile(sorted, 0.25),
                        .inner_high = grade::quantile(sorted, 0.75)});
      }
    }
  }
  if (rows.empty()) {
    block.missing.emplace_back("No state was measured: states.jsonl of a probe directory holds them.");
    return block;
  }
  block.words =
      "Median over states, middle half (thick) and the range from the 10th to the 90th percentile (thin).";
  draw_ranges(
      rows,
      {.axis = "share (%)",
       .description = "Ranges over states of fidelity and leakage in percent, a row an arm and intervention.",
       .middle = "median",
       .low = "P10",
       .high = "P90",
       .inner_low = "P25",
       .inner_high = "P75",
       .digits = 2},
      block);
  return block;
}

Block probe_strata_figure(const std::vector<ProbeFiles>& probes) {
  Block block = titled("probe-strata", "Where updates go, by kind of state");
  static constexpr std::array<Measure, 3> kKinds = {{{"concentration", "by concentration"},
                                                     {"mismatch", "by mismatch mass"},
                                                     {"entropy", "by teacher entropy"}}};
  Json rows = Json::array(), kinds = Json::array(), measures = Json::array();
  std::vector<std::string> names;
  for (const Measure& measure : kMeasures) measures.push_back(measure.title);
  for (const Measure& kind : kKinds) kinds.push_back(kind.title);
  for (const ProbeFiles& probe : probes) {
    for (const Json& row : list_at(probe.probe, "rows")) {
      if (text_at(row, "intervention") != "fresh_adamw" || !row.contains("strata")) continue;
      std::string name = text_at(row, "name");
      if (probes.size() > 1) name = fmt::format("{}: {}", probe.shown, shown_series(name));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      for (const Measure& kind : kKinds) {
        int stratum = 0;
        for (const Json& line : list_at(row["strata"], kind.key)) {
          ++stratum;
          for (const Measure& measure : kMeasures) {
            const auto value = number_at(line, {measure.key});
            if (value)
              rows.push_back({{"name", shown_series(name)},
                              {"kind", kind.title},
                              {"stratum", stratum},
                              {"measure", measure.title},
                              {"value", 100 * *value}});
          }
        }
      }
    }
  }
  if (rows.empty()) {
    block.missing.emplace_back("No stratum was measured: probe.json of a probe directory holds them.");
    return block;
  }
  block.words =
      "Means of one fresh-AdamW step. Concentration: four equal bins of c from 0 to 1; mismatch mass and "
      "teacher entropy: quartiles "
      "of the states, 1 the least.";
  block.table = table_of_rows(rows, {{"measure", "", 0},
                                     {"kind", "strata", 0},
                                     {"name", "arm", 0},
                                     {"stratum", "stratum", 0},
                                     {"value", "value", 2}});
  const SeriesScales scales = scales_of_series(names);
  const Json legend = {{"title", nullptr}};
  const Json x = {
      {"field", "stratum"}, {"type", "ordinal"}, {"title", "stratum"}, {"axis", {{"labelAngle", 0}}}};
  const Json y = quantity("value", "", {{"scale", {{"zero", false}}}, {"axis", {{"tickCount", 4}}}});
  const Json color = category("name", "", {{"scale", scales.color}, {"legend", legend}});
  block.chart = chart_of(block.title,
                         "Small line charts: fidelity and leakage by stratum of concentration, mismatch mass "
                         "and teacher entropy.",
                         rows);
  const Json header = {{"title", nullptr}};
  block.chart["facet"] = {
      {"row",
       {{"field", "measure"},
        {"type", "nominal"},
        {"sort", measures},
        {"header", {{"title", nullptr}, {"labelAngle", -90}}}}},
      {"column", {{"field", "kind"}, {"type", "nominal"}, {"sort", kinds}, {"header", header}}}};
  block.chart["spec"] = {
      {"width", 140},
      {"height", 120},
      {"layer",
       Json::array({{{"mark", "line"},
                     {"encoding",
                      {{"x", x},
                       {"y", y},
                       {"color", color},
                       {"strokeDash", category("name", "", {{"scale", scales.dash}, {"legend", legend}})}}}},
                    {{"mark", {{"type", "point"}, {"size", 36}}},
                     {"encoding",
                      {{"x", x},
                       {"y", y},
                       {"color", color},
                       {"shape", category("name", "", {{"scale", scales.shape}, {"legend", legend}})}}}}})}};
  block.chart["resolve"] = {{"scale", {{"y", "independent"}}}};
  return block;
}

}  // namespace routeopd::report
