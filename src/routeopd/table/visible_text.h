// Text that a model or a user wrote, made safe to show: nothing in it acts on a terminal, reorders a line,
// hides, or becomes markup.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::table {

// UTF-8 whose every character can be seen: control characters, direction marks and characters without width
// are escaped (\n, \x1b, \u{202e}), and so are bytes that make no character (\xf0).
std::string visible(std::string_view bytes);

// The same with every line feed shown and obeyed.
std::string visible_lines(std::string_view bytes);

// As visible(), between quotation marks, with \" and \\ inside, so that two different tokens never look
// alike.
std::string in_quotes(std::string_view bytes);

}  // namespace routeopd::table
