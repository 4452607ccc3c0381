// What responses are, in shares: one bar an arm.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/charts/study_charts.h"

namespace routeopd::report {
namespace {

struct LabelColor {
  std::string_view label, shown, fill, ink;
};

// The same on light and dark, with an ink that reads on each; neighbours differ in lightness, for print in grey. Some are
// faint on one of the grounds: an outline bounds them.
constexpr std::array<LabelColor, 7> kLabels = {{{"correct", "correct", "#0a5a8a", "#fdfdfd"},
                                                {"reasoning", "reasoning", "#e6a020", "#101010"},
                                                {"arithmetic", "arithmetic", "#f5eda0", "#101010"},
                                                {"wrong", "wrong", "#e6a021", "#101010"},
                                                {"premature_stop", "premature stop", "#b0538a", "#fdfdfd"},
                                                {"format", "format", "#c9c9ca", "#101010"},
                                                {"unjudged", "unjudged", "#6e6e70", "#fdfdfd"}}};

constexpr double kOutline = 0.75;  // pixels

}  // namespace

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
