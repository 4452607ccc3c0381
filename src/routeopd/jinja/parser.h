// A template's source as a syntax tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "routeopd/jinja/syntax.h"

namespace routeopd::jinja {

// Throws UserError("chat template, line N: …") for what is not jinja, or not supported.
Template parse(std::string_view source);

}  // namespace routeopd::jinja
