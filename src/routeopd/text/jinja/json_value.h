// JSON from outside as values of the template.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "routeopd/text/jinja/heap.h"

namespace routeopd::text::jinja {

// Throws UserError for text that is not UTF-8, for integers from 2^63 on and for too much nesting.
Value value_of(Heap& heap, const nlohmann::ordered_json& json, int depth = 0);

}  // namespace routeopd::text::jinja
