// A report as one page that refers to nothing outside itself, and its figures and tables as files.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/chart_renderer.h"

namespace routeopd::report {

// The id in small letters, digits and hyphens, with a number behind it where it is among those used; it is one of them then.
// For ids of a page and names of files.
std::string unique_id(const std::string& id, std::set<std::string>& used);

// Every block of the report that has a chart, in order.
std::vector<const Block*> charted(const Report& report);

// The page. `drawings`: one a charted block, of its chart without title, which the page has as a heading. A block whose
// drawing is not there, or is one that a page does not take, shows its data as a table and says why. Everything that comes
// from files is escaped; there is no script.
std::string report_html(const Report& report, const std::vector<Drawing>& drawings);

struct ReportFiles {
  std::filesystem::path page;     // report.html
  std::filesystem::path figures;  // directory of ID.vl.json, ID.svg, ID.png; empty: none
  std::filesystem::path tables;   // directory of ID.md, ID.csv, ID.tex; empty: none
};

struct WrittenReport {
  std::size_t bytes = 0;  // of the page
  int charts = 0, drawn = 0;
  std::string trouble;  // the first reason why a chart was not drawn or a figure not written; empty: all were
};

// Draws and writes all of it. A figure that could not be drawn leaves no ID.svg and ID.png, also no older ones. Throws
// UserError when a file cannot be written.
WrittenReport write_report(const Report& report, const ReportFiles& files);

}  // namespace routeopd::report
