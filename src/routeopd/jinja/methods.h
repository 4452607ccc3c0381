// The attributes and methods of values: 'a b'.split(), message.items(), loop.index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "routeopd/jinja/filters.h"

namespace routeopd::jinja {

// What getattr() of Python gives: nullopt where it has nothing. Private names and methods that would change a value are
// undefined, as in the sandbox. Throws UserError for what Python has and this does not.
std::optional<Value> python_attribute(Heap& heap, const Value& object, std::string_view name);

// object[index] of a text, list or range, counted from the end when it is negative; nullopt beyond.
std::optional<Value> element(Heap& heap, const Value& object, std::int64_t index);

// Methods take the value they belong to where a filter takes its value.
std::span<const NamedFilter> text_methods();

// The pieces of str.split, str.rsplit and str.splitlines; the filters use some of them.
std::string_view stripped(std::string_view text, const Text* characters, bool left, bool right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
std::string replaced(Heap& heap, std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t count);
std::string padded(Heap& heap, const Text& text, std::int64_t width, std::string_view fill, char align);

}  // namespace routeopd::jinja
