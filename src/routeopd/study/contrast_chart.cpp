// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/contrast_chart.h"

#include <algorithm>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"

namespace routeopd::study {
namespace {

using report::add_row_panels;
using report::category;
using report::chart_color;
using report::chart_of;
using report::finite;
using report::quantity;
using report::shown_series;
using report::table_of_rows;

}  // namespace

void draw_contrasts(const std::vector<ContrastPoint>& points, const ContrastWords& words, Block& block) {
  Json rows = Json::array(), order = Json::array(), blocks = Json::array();
  bool papers = false;
  for (const ContrastPoint& point : points) {
    const std::string name = shown_series(point.name);
    if (std::find(order.begin(), order.end(), Json(name)) == order.end()) order.push_back(name);
    if (std::find(blocks.begin(), blocks.end(), Json(point.block)) == blocks.end())
      blocks.push_back(point.block);
    papers = papers || point.paper;
    rows.push_back({{"block", point.block},
                    {"variant", name},
                    {"contrast", finite(point.contrast.value)},
                    {"low", finite(point.contrast.low)},
                    {"high", finite(point.contrast.high)},
                    {"paper", finite(point.paper)},
                    {"kind", "here"},
                    {"paper_kind", "paper"}});
  }
  std::vector<report::DataColumn> columns = {{"variant", "variant", 0},
                                             {"contrast", "difference, points", 2},
                                             {"low", "low", 2},
                                             {"high", "high", 2},
                                             {"paper", "paper", 2}};
  if (blocks.size() > 1) columns.insert(columns.begin(), {"block", "block", 0});
  block.table = table_of_rows(rows, columns);
  const Json x = quantity("contrast", words.axis, {{"scale", {{"nice", true}}}});
  const Json y = category("variant", "",
                          {{"sort", order}, {"axis", {{"grid", true}, {"tickSize", 0}, {"domain", false}}}});
  Json low = x, paper = x;
  low["field"] = "low";
  paper["field"] = "paper";
  const Json color = {{"domain", {"here", "paper"}},
                      {"range", {chart_color("blue"), chart_color("vermillion")}}};
  const Json shape = {{"domain", {"here", "paper"}}, {"range", {"circle", "diamond"}}};
  const Json legend = papers ? Json{{"title", nullptr}} : Json();
  Json layers = Json::array();
  layers.push_back({{"mark", {{"type", "rule"}, {"color", chart_color("ink")}, {"strokeWidth", 1}}},
                    {"encoding", {{"x", {{"datum", 0}}}}}});
  layers.push_back({{"mark", {{"type", "rule"}, {"color", chart_color("blue")}, {"strokeWidth", 2}}},
                    {"encoding", {{"x", low}, {"x2", {{"field", "high"}}}, {"y", y}}}});
  layers.push_back({{"mark", {{"type", "point"}, {"size", 70}}},
                    {"encoding",
                     {{"x", x},
                      {"y", y},
                      {"color", category("kind", "", {{"scale", color}, {"legend", legend}})},
                      {"shape", category("kind", "", {{"scale", shape}, {"legend", legend}})}}}});
  if (papers)
    layers.push_back({{"mark", {{"type", "point"}, {"size", 60}, {"filled", false}, {"strokeWidth", 1.5}}},
                      {"encoding",
                       {{"x", paper},
                        {"y", y},
                        {"color", category("paper_kind", "", {{"scale", color}, {"legend", legend}})},
                        {"shape", category("paper_kind", "", {{"scale", shape}, {"legend", legend}})}}}});
  block.chart = chart_of(block.title, words.description, rows);
  if (blocks.size() > 1) {
    add_row_panels(block.chart, "block", blocks, std::move(layers));
    return;
  }
  block.chart["width"] = 340;
  block.chart["height"] = {{"step", 24}};
  block.chart["layer"] = std::move(layers);
}

}  // namespace routeopd::study
