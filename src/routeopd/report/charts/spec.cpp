// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "routeopd/base/utf8.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

Json chart_config() {
  const std::string ink = chart_color("ink"), faint = chart_color("faint"), line = chart_color("line");
  return {{"aria", false},  // the page describes the figure as a whole and has its data as a table
          {"font", "sans-serif"},
          {"view", {{"stroke", nullptr}}},
          {"axis",
           {{"labelColor", ink},
            {"titleColor", ink},
            {"tickColor", faint},
            {"domainColor", faint},
            {"gridColor", line},
            {"gridOpacity", 0.6},
            {"labelFontSize", 11},
            {"titleFontSize", 12},
            {"titleFontWeight", "normal"},
            {"labelLimit", 200},
            {"titleLimit", 400}}},
          {"legend",
           {{"orient", "bottom"},
            {"direction", "horizontal"},
            {"columns", 4},
            {"labelColor", ink},
            {"titleColor", ink},
            {"labelFontSize", 11},
            {"titleFontSize", 11},
            {"titleFontWeight", "normal"},
            {"symbolSize", 80},
            {"symbolStrokeWidth", 2},
            {"columnPadding", 22},
            {"labelLimit", 200}}},
          {"title", {{"color", ink}, {"fontSize", 13}, {"anchor", "start"}, {"subtitleColor", faint}}},
          {"header",
           {{"labelColor", ink},
            {"titleColor", ink},
            {"labelFontSize", 12},
            {"labelFontWeight", "normal"},
            {"labelLimit", 400},
            {"title", nullptr}}},
          {"text", {{"color", ink}, {"fontSize", 11}}},
          {"rule", {{"color", faint}}},
          {"point", {{"filled", true}, {"opacity", 1}}},
          {"line", {{"strokeWidth", 2}}},
          {"circle", {{"opacity", 1}}}};
}

Json encoded(std::string_view field, std::string_view type, std::string_view title, const Json& more) {
  Json encoding = {{"field", field}, {"type", type}, {"title", title.empty() ? Json() : Json(title)}};
  encoding.update(more);
  return encoding;
}

}  // namespace

Json chart_of(const std::string& title, const std::string& description, Json rows) {
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
          {"title", title},
          {"description", description},
          {"background", chart_color("ground")},
          // A reader's sans-serif may be wider than the one that the renderer measures.
          {"padding", {{"left", 26}, {"right", 12}, {"top", 5}, {"bottom", 5}}},
          {"config", chart_config()},
          {"data", {{"values", std::move(rows)}}}};
}

void add_row_panels(Json& chart, std::string_view field, const Json& order, Json layers) {
  chart["facet"] = {{"row",
                     {{"field", field},
                      {"type", "nominal"},
                      {"sort", order},
                      {"header",
                       {{"labelAngle", 0},
                        {"labelAlign", "left"},
                        {"labelOrient", "top"},
                        {"labelPadding", -14},
                        {"labelAnchor", "start"},
                        {"title", nullptr}}}}}};
  chart["spec"] = {{"width", 380}, {"height", {{"step", 20}}}, {"layer", std::move(layers)}};
  chart["spacing"] = 8;
  chart["resolve"] = {{"scale", {{"y", "independent"}}}};
}

Json quantity(std::string_view field, std::string_view title, const Json& more) {
  return encoded(field, "quantitative", title, more);
}

Json category(std::string_view field, std::string_view title, const Json& more) {
  return encoded(field, "nominal", title, more);
}

table::TextTable table_of_rows(const Json& rows, const std::vector<DataColumn>& columns) {
  std::vector<table::TextTable::Column> titles;
  for (const DataColumn& column : columns) {
    const bool words = std::any_of(rows.begin(), rows.end(), [&](const Json& row) {
      const auto found = row.find(column.field);
      return found != row.end() && found->is_string();
    });
    titles.push_back({column.title, words ? table::Align::kLeft : table::Align::kRight});
  }
  table::TextTable table(std::move(titles));
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const DataColumn& column : columns) {
      const auto found = row.find(column.field);
      if (found == row.end() || found->is_null()) {
        cells.emplace_back();
      } else if (found->is_string()) {
        cells.push_back(found->get<std::string>());
      } else if (found->is_number_integer()) {
        cells.push_back(std::to_string(found->get<std::int64_t>()));
      } else {
        cells.push_back(found->is_number() ? fmt::format("{:.{}f}", found->get<double>(), column.digits)
                                           : found->dump());
      }
    }
    table.add(std::move(cells));
  }
  return table;
}

Json finite(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json finite(const std::optional<double>& value) {
  return value ? finite(*value) : Json();
}

Extent extent_of(std::span<const double> values, double share) {
  Extent extent{HUGE_VAL, -HUGE_VAL};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    extent = {std::min(extent.low, value), std::max(extent.high, value)};
  }
  if (extent.low > extent.high) return {};
  const double width = extent.high - extent.low;
  const double margin = width > 0 ? share * width : std::max(1e-3, std::abs(extent.high) * 0.05);
  return {extent.low - margin, extent.high + margin};
}

std::string short_number(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

namespace {

// Where each character of visible text begins.
std::vector<std::size_t> beginnings(const std::string& shown) {
  std::vector<std::size_t> all;
  for (std::size_t at = 0; at < shown.size(); at += utf8_length(shown[at])) all.push_back(at);
  return all;
}

}  // namespace

std::string short_text(std::string_view text, std::size_t most) {
  const std::string shown = table::visible(text);
  const std::vector<std::size_t> begins = beginnings(shown);
  return begins.size() <= most ? shown : shown.substr(0, begins[most - 1]) + "…";
}

std::string end_of_text(std::string_view text, std::size_t most) {
  const std::string shown = table::visible(text);
  const std::vector<std::size_t> begins = beginnings(shown);
  return begins.size() <= most ? shown : "…" + shown.substr(begins[begins.size() - most + 1]);
}

}  // namespace routeopd::report
