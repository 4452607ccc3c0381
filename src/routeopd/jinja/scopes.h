// Which names a body hides from the outside. jinja settles at compile time where a name lives: one that a body sets
// outright (not under an if), and that neither an earlier expression of the body nor a scope around it speaks of, is
// unknown in the whole body until it is set, even when the template was given a variable of that name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/jinja/syntax.h"

namespace routeopd::jinja {

// Fills `hidden` and `hidden_otherwise` of the template and of every statement.
void hide_names(Template& source);

}  // namespace routeopd::jinja
