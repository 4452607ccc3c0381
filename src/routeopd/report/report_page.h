// A report as one page that refers to nothing outside itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/chart_renderer.h"

namespace routeopd::report {

// The id in small letters, digits and hyphens, for ids of a page and names of files. Where it is among those
// used, a number follows it; afterwards it is one of them.
std::string unique_id(const std::string& id, std::set<std::string>& used);

// Every block of the report that has a chart, in order.
std::vector<const Block*> charted(const Report& report);

// The page. `drawings`: one for each charted block, of its chart without title, which the page has as a
// heading. A block whose drawing is not there, or is one that a page does not take, shows its data as a table
// and says why. Everything that comes from files is escaped; there is no script.
std::string report_html(const Report& report, const std::vector<Drawing>& drawings);

}  // namespace routeopd::report
