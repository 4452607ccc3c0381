// A judge's answer as text, read: a JSON object with a label, wherever a model put it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "routeopd/judge/prompt.h"

namespace routeopd::judge {

inline constexpr std::size_t kMostRationale = 500;  // bytes

// The verdict in a text: behind the last </think>, in prose or a code fence, the flat JSON objects whose "label" names
// one of the three labels. None where there is no such object, or where two name different labels. Backslashes that
// JSON does not know, which judges write in formulas, and line feeds inside strings are forgiven. Only the last 64 kB
// and the last 64 braces of a text are looked at.
std::optional<Verdict> read_verdict(std::string_view text);

}  // namespace routeopd::judge
