// The attributes, methods and items of values: 'a b'.split(), message.items(), loop.index, messages[0].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {

// getattr() of Python: nullopt where there is none. Private names and methods that would change a value are
// undefined, as in the sandbox. Throws UserError for what Python has and this does not.
std::optional<Value> python_attribute(Heap& heap, const Value& object, std::string_view name);

// object[index] of a text, list or range; a negative index counts from the end. nullopt beyond either end.
std::optional<Value> element(Heap& heap, const Value& object, std::int64_t index);

// object.name: the attribute, else the item of that name.
Value get_attribute(Heap& heap, const Value& object, std::string_view name);

// object[key]: the item, else the attribute of that name.
Value get_item(Heap& heap, const Value& object, const Value& key);

}  // namespace routeopd::jinja
