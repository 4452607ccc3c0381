// What decontamination found, for a terminal and for a page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "routeopd/decontamination/decontaminate.h"
#include "routeopd/table/text_table.h"

namespace routeopd::report {

// The training file's rows and duplicates, one row per test file, and what is removed.
std::string decontamination_report(const decontamination::Decontamination& result,
                                   const decontamination::DecontaminateOptions& options,
                                   table::TableFormat format);

}  // namespace routeopd::report
