// The JSON types by name, for headers that only mention them: parsing nlohmann/json.hpp takes seconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace routeopd {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // keeps its keys in order, as Python's dict does

}  // namespace routeopd
