// Numbers from texts, as int() and float() of Python read them: whitespace around, underscores between digits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace routeopd::text::jinja {

// nullopt where Python has a ValueError; throws UserError from 2^63 on. Base 0 goes by the prefix 0x, 0o or 0b.
std::optional<std::int64_t> parsed_integer(std::string_view text, std::int64_t base);
std::optional<double> parsed_float(std::string_view text);

}  // namespace routeopd::text::jinja
