// The filters of lists and dicts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "routeopd/jinja/filters.h"

namespace routeopd::jinja {

std::span<const NamedFilter> list_filters();

}  // namespace routeopd::jinja
