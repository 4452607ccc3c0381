// The tests by name: `value is name(arguments)`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "routeopd/jinja/interpreter.h"

namespace routeopd::jinja {

using TestFunction = bool(Interpreter&, const Value& value, Arguments& arguments);

// Null where there is none of that name.
TestFunction* find_test(std::string_view name);
inline bool is_test(std::string_view name) {
  return find_test(name) != nullptr;
}

}  // namespace routeopd::jinja
