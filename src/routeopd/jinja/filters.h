// The filters by name: `value | name(arguments)`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "routeopd/jinja/interpreter.h"

namespace routeopd::jinja {

using FilterFunction = Value(Interpreter&, const Value& value, Arguments& arguments);

// Null where there is none of that name.
FilterFunction* find_filter(std::string_view name);
inline bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

struct NamedFilter {
  std::string_view name;
  FilterFunction* run;
};
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> list_filters();
std::span<const NamedFilter> number_filters();

// The arguments in the order of `names`, given by place or by name. Throws UserError, naming `what`, when one of the
// first `required` is missing, one is given twice, or there is another.
std::vector<std::optional<Value>> bound(std::string_view what, Arguments& arguments,
                                        std::initializer_list<std::string_view> names,
                                        std::size_t required = 0);

// An argument as what a filter needs; throws UserError that begins with `what`.
std::int64_t integer_argument(std::string_view what, const Value& value);
const Text& text_argument(std::string_view what, const Value& value);

}  // namespace routeopd::jinja
