// Answers as JSON: objects that keep the order of their keys, written once they are whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "routeopd/base/json_fwd.h"

namespace routeopd::serve {

// An empty object with room for so many fields: one that grows copies the values it has.
inline OrderedJson room_for(std::size_t fields) {
  OrderedJson::object_t object;
  object.reserve(fields);
  return OrderedJson(std::move(object));
}

// Bytes that are not UTF-8, such as those that a client sent and a message repeats, are replaced.
inline std::string json_text(const OrderedJson& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace);
}

}  // namespace routeopd::serve
