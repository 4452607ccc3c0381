// What every figure shares: a Vega-Lite specification with its data inside and our type, axes and colours;
// the same data as a table, for those who cannot see the figure.
// For charts/ and the figures of the study.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/report/block.h"

namespace routeopd::report {

// {"$schema", "title", "description", "background", "config", "data": {"values": rows}}; the caller adds
// marks and sizes.
Json chart_of(const std::string& title, const std::string& description, Json rows);

// {"field", "type": "quantitative", "title"} and what is in `more`, which wins.
Json quantity(std::string_view field, std::string_view title, const Json& more = Json::object());
Json category(std::string_view field, std::string_view title, const Json& more = Json::object());

// One row of panels for each value of `field`, in the given order, its name over it; `layers` are drawn in
// each.
void add_row_panels(Json& chart, std::string_view field, const Json& order, Json layers);

// A column of the data as a reader sees it.
struct DataColumn {
  std::string field;
  std::string title;
  int digits = 2;  // after the point
};

// The rows of a chart; what is null or not there is an empty cell.
table::TextTable table_of_rows(const Json& rows, const std::vector<DataColumn>& columns);

// JSON has no number for what is not finite.
Json finite(double value);
Json finite(const std::optional<double>& value);

struct Extent {
  double low = 0, high = 1;
};

// From the least to the largest finite value with a margin of `share` of it on either side; never empty.
Extent extent_of(std::span<const double> values, double share);

// A number as short as it can be said for a label: "64.4".
std::string short_number(double value, int digits);

// A token or a name in at most `most` characters, visible, with "…" in place of what is cut.
std::string short_text(std::string_view text, std::size_t most);
// The same of its end.
std::string end_of_text(std::string_view text, std::size_t most);

}  // namespace routeopd::report
