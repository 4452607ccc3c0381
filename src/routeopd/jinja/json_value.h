// JSON from outside as values of the template.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/base/json_fwd.h"
#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {

// Throws UserError for text that is not UTF-8, for integers from 2^63 on and for too much nesting.
Value value_of(Heap& heap, const OrderedJson& json, int depth = 0);

}  // namespace routeopd::jinja
