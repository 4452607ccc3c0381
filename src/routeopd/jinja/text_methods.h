// The methods of str.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/jinja/filters.h"

namespace routeopd::jinja {

// Methods take the value they belong to where a filter takes its value.
std::span<const NamedFilter> text_methods();

// Parts of them that filters use as well.
std::string_view stripped(std::string_view text, const Text* characters, bool left, bool right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
std::string replaced(Heap& heap, std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t count);
std::string padded(Heap& heap, const Text& text, std::int64_t width, std::string_view fill, char align);

}  // namespace routeopd::jinja
