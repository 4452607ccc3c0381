// A comparison of two runs for a terminal and for a page.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "routeopd/grade/compare.h"

namespace routeopd::report {

// One row a suite and their average, in percent; then, for each suite, how many problems changed and at most
// `changes` of them, worst first.
std::string comparison_text(const grade::Comparison& comparison, std::size_t changes = 10);

// The same as Markdown.
std::string comparison_markdown(const grade::Comparison& comparison, std::size_t changes = 10);

}  // namespace routeopd::report
