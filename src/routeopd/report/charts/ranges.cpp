//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/ranges.h"

#include <algorithm>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"

namespace routeopd::report {

void draw_ranges(const std::vector<RangeRow>& ranges, const RangeWords& words, Block& block) {
  Json rows = Json::array(), groups = Json::array(), names = Json::array();
  bool inner = false;
  for (const RangeRow& range : ranges) {
    const std::string name = shown_series(range.name);
    if (std::find(groups.begin(), groups.end(), Json(range.group)) == groups.end())
      groups.push_back(range.group);
    if (std::find(names.begin(), names.end(), Json(name)) == names.end()) names.push_back(name);
    inner = inner || range.inner_low;
    rows.push_back({{"group", range.group},
                    {"name", name},
                    {"middle", finite(range.middle)},
                    {"low", finite(range.low)},
                    {"high", finite(range.high)},
                    {"inner_low", finite(range.inner_low)},
                    {"inner_high", finite(range.inner_high)}});
  }
  std::vector<DataColumn> columns = {{"group", "", 0},
                                     {"name", "", 0},
                                     {"middle", words.middle, words.digits},
                                     {"low", words.low, words.digits}};
  if (inner)
    columns.insert(columns.end(), {{"inner_low", words.inner_low, words.digits},
                                   {"inner_high", words.inner_high, words.digits}});
  columns.push_back({"high", words.high, words.digits});
  block.table = table_of_rows(rows, columns);

  const Json y =
      category("name", "", {{"sort", names}, {"axis", {{"grid", true}, {"tickSize", 0}, {"domain", false}}}});
  const auto x = [&](const char* field) {
    return quantity(field, words.axis, {{"scale", {{"zero", false}}}});
  };
  const std::string blue = chart_color("blue");
  Json layers = Json::array();
  layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 2}, {"color", blue}}},
                    {"encoding", {{"x", x("low")}, {"x2", {{"field", "high"}}}, {"y", y}}}});
  if (inner)
    layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 8}, {"color", blue}, {"opacity", 0.55}}},
                      {"encoding", {{"x", x("inner_low")}, {"x2", {{"field", "inner_high"}}}, {"y", y}}}});
  layers.push_back({{"mark", {{"type", "point"}, {"size", 55}, {"color", inner ? chart_color("ink") : blue}}},
                    {"encoding", {{"x", x("middle")}, {"y", y}}}});
  block.chart = chart_of(block.title, words.description, rows);
  add_row_panels(block.chart, "group", groups, std::move(layers));
}

}  // namespace routeopd::report
