// What every template knows by name: functions (range, dict, namespace, cycler, joiner, and transformers'
// raise_exception and strftime_now) and tests (`value is name(arguments)`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "routeopd/jinja/evaluator.h"

namespace routeopd::jinja {

// The function of that name, nullopt where there is none.
std::optional<Value> global(Heap& heap, std::string_view name);

// Calls what joiner(…) made: nothing at the first call, its separator at every other.
Value call_joiner(Cycler& joiner, Heap& heap);

using TestFunction = bool(Evaluator&, const Value& value, Arguments& arguments);

// Null where there is none of that name.
TestFunction* find_test(std::string_view name);
inline bool is_test(std::string_view name) {
  return find_test(name) != nullptr;
}

}  // namespace routeopd::jinja
