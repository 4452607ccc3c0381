// Filters by name, `value | name(arguments)`; those of numbers, of texts and of any value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "routeopd/jinja/evaluator.h"

namespace routeopd::jinja {

using FilterFunction = Value(Evaluator&, const Value& value, Arguments& arguments);

// Null where there is none of that name.
FilterFunction* find_filter(std::string_view name);
inline bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

struct NamedFilter {
  std::string_view name;
  FilterFunction* run;
};

// The arguments in the order of `names`, whether given by position or by name. Throws UserError that begins
// with `what` when one of the first `required` is missing, when one is given twice, or when there is another.
std::vector<std::optional<Value>> bound(std::string_view what, Arguments& arguments,
                                        std::initializer_list<std::string_view> names,
                                        std::size_t required = 0);

// An argument as an integer or a text. Throws UserError that begins with `what` if it is another type.
std::int64_t integer_argument(std::string_view what, const Value& value);
const Text& text_argument(std::string_view what, const Value& value);

}  // namespace routeopd::jinja
