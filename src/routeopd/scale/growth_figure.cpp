// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/growth_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/report/chart_renderer.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/report_files.h"

namespace routeopd::scale {
namespace {

using report::category;
using report::chart_color;
using report::quantity;

struct Colored {
  const char* name;
  const char* color;
};
constexpr std::array<Colored, 5> kStages = {{{"rollout", "blue"},
                                             {"score", "sky"},
                                             {"route", "purple"},
                                             {"learn", "vermillion"},
                                             {"communication", "grey"}}};
constexpr std::array<Colored, 8> kParts = {{{"keys and values", "blue"},
                                            {"engine", "sky"},
                                            {"teacher", "green"},
                                            {"student", "amber"},
                                            {"gradients", "vermillion"},
                                            {"optimizer", "purple"},
                                            {"activations", "grey"},
                                            {"head", "ink"}}};

// Bars of one kind of row over the counts, stacked in the order of `names`.
template <std::size_t N>
Json panel(const std::string& kind, const std::string& title, const std::array<Colored, N>& names,
           const Json& counts, const std::set<std::string>& there) {
  Json domain = Json::array(), range = Json::array();
  for (const Colored& each : names) {
    if (!there.contains(each.name)) continue;
    domain.push_back(each.name);
    range.push_back(chart_color(each.color));
  }
  return {{"width", 460},
          {"height", 200},
          {"transform", {{{"filter", {{"field", "kind"}, {"equal", kind}}}}}},
          {"mark", {{"type", "bar"}, {"stroke", chart_color("ground")}, {"strokeWidth", 0.5}}},
          {"encoding",
           {{"x",
             {{"field", "gpus"},
              {"type", "ordinal"},
              {"sort", counts},
              {"title", "devices"},
              {"axis", {{"labelAngle", 0}}}}},
            {"y", quantity("value", title, {{"stack", "zero"}})},
            {"order", {{"field", "order"}, {"type", "quantitative"}}},
            {"color", category("name", "", {{"scale", {{"domain", domain}, {"range", range}}}})}}}};
}

template <std::size_t N>
int order_of(const std::array<Colored, N>& names, const std::string& name) {
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const Colored& each) { return name == each.name; });
  return static_cast<int>(found - names.begin());
}

std::string ending_of(const std::filesystem::path& file) {
  return file.extension().string();
}

}  // namespace

std::vector<std::int64_t> drawn_counts(std::int64_t asked) {
  std::set<std::int64_t> counts;
  for (std::int64_t count = 1; count <= kMostDrawn; count *= 2) counts.insert(count);
  if (asked <= kMostDrawn) counts.insert(asked);
  return {counts.begin(), counts.end()};
}

report::Block growth_figure(const std::vector<Prediction>& predictions) {
  report::Block block = report::titled("growth", "A step over the number of devices");
  if (predictions.empty()) {
    block.missing.emplace_back("Nothing was predicted.");
    return block;
  }
  block.words = fmt::format(
      "Predicted for {}: seconds of a step by stage, and memory of one device by part with every response at "
      "its "
      "longest; what lies on the host is left out. Prompts are dealt whole, so time stops falling where "
      "there are "
      "more devices than prompts, and it cannot fall below that of the longest response.",
      predictions.front().device.name);
  Json rows = Json::array(), counts = Json::array();
  std::set<std::string> there;
  for (const Prediction& prediction : predictions) {
    const std::string count = std::to_string(prediction.layout.gpus);
    counts.push_back(count);
    const auto add = [&](const char* kind, const std::string& name, double value, int order) {
      there.insert(name);
      rows.push_back({{"gpus", count},
                      {"kind", kind},
                      {"name", name},
                      {"value", report::finite(value)},
                      {"order", order}});
    };
    for (const Stage& stage : prediction.stages)
      add("seconds", stage.name, stage.seconds, order_of(kStages, stage.name));
    for (const Part& part : prediction.memory.parts)
      if (!part.on_host) add("GB", part.name, part.bytes / 1e9, order_of(kParts, part.name));
  }
  block.table = report::table_of_rows(
      rows, {{"gpus", "devices", 0}, {"kind", "unit", 0}, {"name", "of", 0}, {"value", "value", 4}});
  block.chart = report::chart_of(block.title,
                                 "Two stacked bar charts over the number of devices from 1 to 1,024: seconds "
                                 "of a step by stage, and gigabytes "
                                 "of memory of one device by part.",
                                 std::move(rows));
  block.chart["vconcat"] = Json::array({panel("seconds", "seconds of a step", kStages, counts, there),
                                        panel("GB", "memory of one device (GB)", kParts, counts, there)});
  block.chart["resolve"] = {{"scale", {{"color", "independent"}}}};
  return block;
}

void check_figure_name(const std::filesystem::path& file) {
  const std::string ending = ending_of(file);
  if (ending != ".json" && ending != ".svg" && ending != ".png" && ending != ".html")
    throw UserError("--figure {}: expected a name that ends in .json, .svg, .png or .html", file.string());
}

void write_growth_figure(const report::Block& figure, const std::filesystem::path& file) {
  check_figure_name(file);
  const std::string ending = ending_of(file);
  if (ending == ".json") {
    write_file(file, figure.chart.dump(1) + "\n");
    return;
  }
  if (ending == ".html") {
    report::Report page;
    page.title = "A run on paper";
    page.sections.push_back({.title = "Growth", .blocks = {figure}});
    report::write_report(page, {.page = file, .figures = {}, .tables = {}});
    return;
  }
  const report::Drawing drawing =
      report::render_charts(std::span(&figure.chart, 1), ending == ".png").front();
  const std::string& bytes = ending == ".png" ? drawing.png : drawing.svg;
  if (bytes.empty())
    throw UserError("--figure {}: cannot be drawn: {}; .json needs no renderer", file.string(),
                    drawing.trouble);
  write_file(file, bytes);
}

}  // namespace routeopd::scale
