// Text that stands in HTML as itself, also between quotes. Spelled as Jinja spells it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::text {

std::string html_escaped(std::string_view text);

}  // namespace routeopd::text
