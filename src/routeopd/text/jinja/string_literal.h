// The escapes of a string literal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::text::jinja {

// What stands between the quotes, unescaped as jinja does: unknown escapes stay as they are. Throws UserError for a
// broken \x, \u or \U, for \N{…} and for a surrogate.
std::string unescaped(std::string_view body);

}  // namespace routeopd::text::jinja
