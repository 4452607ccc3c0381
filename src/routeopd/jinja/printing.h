// Values as Python spells them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {

// repr(float): the shortest digits that read back as the same number.
std::string float_repr(double value);

// str(): texts as they are, an undefined value as nothing. Throws UserError for what Python prints with an address.
std::string str(Heap& heap, const Value& value);

// repr(): texts in quotes, with escapes.
std::string repr(Heap& heap, const Value& value);

// str() as a value: a text stays the one it is, escaped or not.
Value soft_text(Heap& heap, const Value& value);

}  // namespace routeopd::jinja
