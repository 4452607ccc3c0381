// What decontamination found, for a terminal and for a page.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "routeopd/grade/decontaminate.h"

namespace routeopd::report {

// The training file's rows and duplicates, one row a test file, and what is removed.
std::string decontamination_text(const grade::Decontamination& result,
                                 const grade::DecontaminateOptions& options);

// The same as Markdown.
std::string decontamination_markdown(const grade::Decontamination& result,
                                     const grade::DecontaminateOptions& options);

}  // namespace routeopd::report
