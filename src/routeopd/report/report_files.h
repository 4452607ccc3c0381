// A report as files: the page, its figures, its tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "routeopd/report/block.h"

namespace routeopd::report {

// Each block with a table as ID.md, ID.csv and ID.tex in a directory, which is made where there is none.
// Files of blocks without a table stay as they are. Throws UserError where a file cannot be written.
void write_tables(const std::vector<Section>& sections, const std::filesystem::path& directory);

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

// Draws and writes all of it. A figure that could not be drawn leaves no ID.svg and ID.png, also no older
// ones. Throws UserError when a file cannot be written.
WrittenReport write_report(const Report& report, const ReportFiles& files);

}  // namespace routeopd::report
