// An explanation (types/explanation.h) for a terminal and for programs; explanation_page.h has it as a page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/types/explanation.h"

namespace routeopd::report {

// Every id that the tokens name, ascending.
std::vector<std::int32_t> mentioned_ids(const std::vector<ExplainedToken>& tokens);

// The token with the most mass, the first among equals.
std::size_t heaviest(const std::vector<ExplainedToken>& tokens);

// For a terminal. `colors`: the response coloured by mass and its heaviest tokens; else every token in a
// table.
std::string explanation_text(const Explanation& explanation, bool colors);

// Everything. Text that is not UTF-8 has U+FFFD in "text" and its bytes beside it.
Json explanation_json(const Explanation& explanation);

}  // namespace routeopd::report
