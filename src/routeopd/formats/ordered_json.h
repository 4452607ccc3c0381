// JSON whose keys keep their order, such as a line of chat messages: templates print objects as Python does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "routeopd/base/json_fwd.h"

namespace routeopd::formats {

// One JSON value. Throws UserError that begins with `where` for repeated keys, for integers beyond 64 bits
// (which most readers would round) and for deep nesting.
OrderedJson parse_ordered_json(std::string_view text, std::string_view where);

}  // namespace routeopd::formats
