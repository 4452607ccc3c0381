// A comparison of runs for a terminal, a page and a paper.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "routeopd/grade/compare.h"
#include "routeopd/table/text_table.h"

namespace routeopd::report {

// One row per suite and their average, in percent; then, for each suite, how many problems changed and at
// most `changes` of them, worst first.
std::string comparison_report(const grade::Comparison& comparison, table::TableFormat format,
                              std::size_t changes = 10);

// One row per pair of runs, then the mean over them for each suite and on average.
std::string macro_report(const grade::MacroComparison& macro, table::TableFormat format);

}  // namespace routeopd::report
