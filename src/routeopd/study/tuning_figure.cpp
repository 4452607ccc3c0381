// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/tuning_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"

namespace routeopd::study {
namespace {

using report::category;
using report::chart_of;
using report::finite;
using report::quantity;
using report::scales_of_series;
using report::SeriesScales;
using report::shown_series;
using report::table_of_rows;

// A panel of the figure: a quantity over the learning rate.
struct RatePanel {
  const char* field;
  std::string title;
  bool rate_title;  // whether the rates' axis says what it is
  int width, height;
  bool accuracy;  // with the spread of its seeds and a ring around what was chosen
};

// The rates, ascending, each once.
std::vector<double> tried_rates(const Tuning& tuning) {
  std::vector<double> rates;
  for (const TunedRate& each : tuning.rates)
    if (each.lr > 0 && std::isfinite(each.lr)) rates.push_back(each.lr);
  std::sort(rates.begin(), rates.end());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  return rates;
}

Json panel_of(const RatePanel& panel, const std::vector<double>& rates, const SeriesScales& scales) {
  // A margin of 15 % on the logarithmic axis, so that no marker is cut.
  const Json x = quantity(
      "lr", panel.rate_title ? "learning rate" : "",
      {{"scale", {{"type", "log"}, {"nice", false}, {"domain", {rates.front() / 1.15, rates.back() * 1.15}}}},
       {"axis", {{"values", rates}, {"format", "~e"}, {"grid", false}}}});
  const auto y = [&](const char* field) {
    return quantity(field, panel.title, {{"scale", {{"zero", false}}}, {"axis", {{"tickCount", 5}}}});
  };
  const auto series = [](const Json& scale) {
    return category("series", "", {{"scale", scale}, {"legend", {{"title", nullptr}, {"symbolOpacity", 1}}}});
  };
  const Json color = series(scales.color);
  Json layers = Json::array();
  if (panel.accuracy)
    layers.push_back(
        {{"mark", {{"type", "area"}, {"opacity", 0.13}}},
         {"encoding", {{"x", x}, {"y", y("low")}, {"y2", {{"field", "high"}}}, {"color", color}}}});
  layers.push_back(
      {{"mark", {{"type", "line"}}},
       {"encoding",
        {{"x", x}, {"y", y(panel.field)}, {"color", color}, {"strokeDash", series(scales.dash)}}}});
  layers.push_back(
      {{"mark", {{"type", "point"}, {"size", 40}}},
       {"encoding", {{"x", x}, {"y", y(panel.field)}, {"color", color}, {"shape", series(scales.shape)}}}});
  if (panel.accuracy)
    layers.push_back(
        {{"transform", {{{"filter", "datum.chosen == 'yes'"}}}},
         {"mark",
          {{"type", "point"}, {"shape", "circle"}, {"size", 240}, {"filled", false}, {"strokeWidth", 2}}},
         {"encoding", {{"x", x}, {"y", y(panel.field)}, {"color", color}}}});
  return {{"width", panel.width}, {"height", panel.height}, {"layer", layers}};
}

}  // namespace

Block tuning_figure(const StudyResults& study) {
  Block block = titled("tuning", "Accuracy over the learning rate");
  const std::vector<double> rates = study.tuning ? tried_rates(*study.tuning) : std::vector<double>();
  Json rows = Json::array();
  std::vector<std::string> names;
  bool steps = false, spread = false;
  const auto hundred = [](std::optional<double> share) { return share ? finite(100 * *share) : Json(); };
  for (const TunedRate& each : study.tuning ? study.tuning->rates : std::vector<TunedRate>()) {
    if (each.per_seed.empty() || !std::binary_search(rates.begin(), rates.end(), each.lr)) continue;
    if (std::find(names.begin(), names.end(), each.arm) == names.end()) names.push_back(each.arm);
    const auto [low, high] = std::minmax_element(each.per_seed.begin(), each.per_seed.end());
    const double mean = mean_over_seeds(each.per_seed);
    steps = steps || each.completion || each.overshoot;
    spread = spread || each.per_seed.size() > 1;
    rows.push_back({{"series", shown_series(each.arm)},
                    {"lr", each.lr},
                    {"rate", significant(each.lr)},
                    {"accuracy", finite(100 * mean)},
                    {"low", finite(100 * *low)},
                    {"high", finite(100 * *high)},
                    {"seeds", each.per_seed.size()},
                    {"chosen", each.chosen ? "yes" : ""},
                    {"completion", hundred(each.completion)},
                    {"overshoot", hundred(each.overshoot)},
                    {"rms", finite(each.rms)}});
  }
  if (rows.empty()) {
    block.missing.emplace_back("No learning rate was tried: the part tune does it.");
    return block;
  }
  block.words = fmt::format(
      "Avg@{} on {} validation problems, which are neither trained on nor held out{}. A ring marks the rate "
      "that was chosen for an arm.{}",
      study.tuning->samples, study.tuning->problems, spread ? ": mean over seeds, the band spans them" : "",
      steps ? " Beside it, of one unscaled update: the share of a target that is reached, and the share of "
              "targets that are overshot. Far below 100 % rates rank how soon an arm moves; near it, what "
              "bounded targets are for."
            : "");
  block.table = table_of_rows(rows, {{"series", "arm", 0},
                                     {"rate", "learning rate", 0},
                                     {"accuracy", "Avg@n %", 2},
                                     {"low", "lowest seed", 2},
                                     {"high", "highest seed", 2},
                                     {"seeds", "seeds", 0},
                                     {"chosen", "chosen", 0},
                                     {"completion", "completion %", 1},
                                     {"overshoot", "overshoot %", 1},
                                     {"rms", "RMS, log-odds", 3}});
  const SeriesScales scales = scales_of_series(names);
  const std::string average = fmt::format("accuracy, Avg@{} (%)", study.tuning->samples);
  block.chart = chart_of(block.title,
                         "Line charts over the learning rate on a logarithmic axis, a line an arm: accuracy "
                         "on validation problems with the chosen rates ringed, and completion and overshoot "
                         "of targets by one update.",
                         rows);
  Json panels = Json::array({panel_of({"accuracy", average, true, 330, 250, true}, rates, scales)});
  if (steps)
    panels.push_back({{"spacing", 14},
                      {"vconcat",
                       {panel_of({"completion", "completion (%)", false, 210, 100, false}, rates, scales),
                        panel_of({"overshoot", "overshoot (%)", true, 210, 100, false}, rates, scales)}}});
  block.chart["spacing"] = 24;
  block.chart["hconcat"] = std::move(panels);
  return block;
}

}  // namespace routeopd::study
