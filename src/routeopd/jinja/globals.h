// The functions that every template knows: range, dict, namespace, cycler, joiner, and transformers' raise_exception and
// strftime_now.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "routeopd/jinja/interpreter.h"

namespace routeopd::jinja {

std::optional<Value> global(Heap& heap, std::string_view name);

// Nothing at the first call, its separator at every other.
Value call_joiner(Cycler& joiner, Heap& heap);

}  // namespace routeopd::jinja
