// An explanation (types/explanation.h) as one page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "routeopd/types/explanation.h"

namespace routeopd::report {

// Refers to nothing outside itself. Every token's tables are in it; without script a link leads to them.
std::string explanation_html(const Explanation& explanation);

}  // namespace routeopd::report
