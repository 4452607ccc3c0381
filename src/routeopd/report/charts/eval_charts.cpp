// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/eval_charts.h"

#include <algorithm>
#include <array>
#include <map>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/series_charts.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

// use(suite, summary) of every suite of an evaluation, in order of its name.
template <class Use>
void for_each_suite(const EvalFiles& eval, const Use& use) {
  const auto suites = eval.summary.find("suites");
  if (!eval.summary.is_object() || suites == eval.summary.end() || !suites->is_object()) return;
  for (auto suite = suites->begin(); suite != suites->end(); ++suite) use(suite.key(), suite.value());
}

std::optional<double> number_in_list(const Json& list, std::size_t place) {
  if (!list.is_array() || place >= list.size() || !list[place].is_number()) return std::nullopt;
  return list[place].get<double>();
}

std::optional<double> times(std::optional<double> value, double factor) {
  return value ? std::optional(*value * factor) : value;
}

struct LabelColor {
  std::string_view label, shown, fill, ink;
};

// The same on light and dark, with an ink that reads on each; neighbours differ in lightness, for print in
// grey. Some are faint on one of the grounds: an outline bounds them.
constexpr std::array<LabelColor, 7> kLabels = {{{"correct", "correct", "#0a5a8a", "#fdfdfd"},
                                                {"reasoning", "reasoning", "#e6a020", "#101010"},
                                                {"arithmetic", "arithmetic", "#f5eda0", "#101010"},
                                                {"wrong", "wrong", "#e6a021", "#101010"},
                                                {"premature_stop", "premature stop", "#b0538a", "#fdfdfd"},
                                                {"format", "format", "#c9c9ca", "#101010"},
                                                {"unjudged", "unjudged", "#6e6e70", "#fdfdfd"}}};

constexpr double kOutline = 0.75;  // pixels

}  // namespace

Block eval_accuracy_figure(const std::vector<EvalFiles>& evals) {
  Block block = titled("eval-accuracy", "Accuracy by suite");
  std::vector<RangeRow> rows;
  for (const EvalFiles& eval : evals) {
    for_each_suite(eval, [&](const std::string& name, const Json& suite) {
      const auto average = number_at(suite, {"avg"});
      if (!average) return;
      const Json& interval = list_at(suite, "avg_interval");
      rows.push_back({.group = short_text(name, 60),
                      .name = eval.shown,
                      .middle = 100 * *average,
                      .low = times(number_in_list(interval, 0), 100),
                      .high = times(number_in_list(interval, 1), 100),
                      .inner_low = {},
                      .inner_high = {}});
    });
  }
  if (rows.empty()) {
    block.missing.emplace_back("No accuracy is known: summary.json of an eval directory holds it.");
    return block;
  }
  block.words = "Avg@n with the 95 % interval of a bootstrap over problems.";
  draw_ranges(
      rows,
      {.axis = "accuracy, Avg@n (%)",
       .description = "Points with 95 % intervals: accuracy in percent of each evaluation, suite by suite.",
       .middle = "Avg@n %",
       .low = "low",
       .high = "high",
       .inner_low = {},
       .inner_high = {},
       .digits = 2},
      block);
  return block;
}

Block eval_lengths_figure(const std::vector<EvalFiles>& evals) {
  Block block = titled("eval-lengths", "Length of responses");
  std::vector<RangeRow> rows;
  for (const EvalFiles& eval : evals) {
    for_each_suite(eval, [&](const std::string& name, const Json& suite) {
      const auto median = number_at(suite, {"length", "p50"});
      if (!median) return;
      rows.push_back({.group = short_text(name, 60),
                      .name = eval.shown,
                      .middle = *median,
                      .low = number_at(suite, {"length", "p10"}),
                      .high = number_at(suite, {"length", "p90"}),
                      .inner_low = number_at(suite, {"length", "p25"}),
                      .inner_high = number_at(suite, {"length", "p75"})});
    });
  }
  if (rows.empty()) {
    block.missing.emplace_back("No length is known: summary.json of an eval directory holds them.");
    return block;
  }
  block.words = "Median, middle half (thick) and the range from the 10th to the 90th percentile (thin).";
  draw_ranges(rows,
              {.axis = "length (tokens)",
               .description = "Ranges of response lengths in tokens of each evaluation, suite by suite.",
               .middle = "median",
               .low = "P10",
               .high = "P90",
               .inner_low = "P25",
               .inner_high = "P75",
               .digits = 0},
              block);
  return block;
}

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

Block composition_figure(const std::vector<LabelShare>& shares) {
  Block block = titled("composition", "What responses are");
  if (shares.empty()) {
    block.missing.emplace_back(
        "No response is labelled: labels.jsonl beside responses.jsonl, or a judge directory, gives labels.");
    return block;
  }
  block.words = "Shares of all responses. Shares under 4 % have their number in the table alone.";
  Json rows = Json::array(), order = Json::array(), names = Json::array(), fills = Json::array();
  for (const LabelShare& share : shares) {
    const auto* label = std::find_if(kLabels.begin(), kLabels.end(),
                                     [&](const LabelColor& each) { return each.label == share.label; });
    if (label == kLabels.end()) label = &kLabels.back();
    const std::string name = shown_series(share.name);
    if (std::find(order.begin(), order.end(), Json(name)) == order.end()) order.push_back(name);
    rows.push_back({{"variant", name},
                    {"label", label->shown},
                    {"place", label - kLabels.data()},
                    {"share", finite(share.share)},
                    {"inside", share.share >= 4 ? short_number(share.share, 1) : ""},
                    {"ink", label->ink}});
  }
  for (const LabelColor& label : kLabels) {
    if (std::none_of(rows.begin(), rows.end(), [&](const Json& row) { return row["label"] == label.shown; }))
      continue;
    names.push_back(label.shown);
    fills.push_back(label.fill);
  }
  block.table =
      table_of_rows(rows, {{"variant", "variant", 0}, {"label", "label", 0}, {"share", "share %", 2}});
  const Json x = quantity("share", "share of responses (%)",
                          {{"stack", "zero"}, {"scale", {{"domain", {0, 100}}, {"nice", false}}}});
  const Json y = category(
      "variant", "", {{"sort", order}, {"axis", {{"tickSize", 0}, {"domain", false}, {"labelPadding", 6}}}});
  const Json stacked = {{"field", "place"}, {"type", "quantitative"}};
  Json middle = x;
  middle["bandPosition"] = 0.5;
  block.chart = chart_of(
      block.title, "Stacked bars: the share of responses with each label, in percent, a bar an arm.", rows);
  block.chart["width"] = 420;
  block.chart["height"] = {{"step", 30}};
  block.chart["layer"] = Json::array(
      {{{"mark",
         {{"type", "bar"}, {"stroke", chart_color("ink")}, {"strokeWidth", kOutline}, {"height", 22}}},
        {"encoding",
         {{"x", x},
          {"y", y},
          {"order", stacked},
          {"color", category("label", "",
                             {{"scale", {{"domain", names}, {"range", fills}}},
                              {"legend",
                               {{"title", nullptr},
                                {"columns", 6},
                                {"symbolType", "square"},
                                {"symbolStrokeColor", chart_color("ink")},
                                {"symbolStrokeWidth", kOutline}}}})}}}},
       {{"mark", {{"type", "text"}, {"color", {{"expr", "datum.ink"}}}}},
        {"encoding",
         {{"x", middle},
          {"y", y},
          {"order", stacked},
          {"detail", {{"field", "label"}}},
          {"text", {{"field", "inside"}, {"type", "nominal"}}}}}}});
  return block;
}

}  // namespace routeopd::report
