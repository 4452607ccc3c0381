//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/components.h"

#include <cstddef>

#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::tokenizer {
namespace {

constexpr std::size_t kMaxList = 64;
constexpr std::size_t kMaxString = 1024;

}  // namespace

std::string component_type(const Json& component) {
  if (!component.is_object()) throw UserError("expected an object, got {}", component.type_name());
  const Json& type = formats::value_or_null(component, "type");
  if (!type.is_string()) throw UserError("type: expected a name, got {}", shown(type));
  return type.get<std::string>();
}

const Json& component_list(const Json& component, const char* key) {
  const Json& list = formats::value_or_null(component, key);
  if (!list.is_array()) throw UserError("{}: expected a list, got {}", key, shown(list));
  if (list.size() > kMaxList) throw UserError("{}: expected at most {}, got {}", key, kMaxList, list.size());
  return list;
}

bool flag_of(const Json& component, const char* key) {
  if (formats::value_or_null(component, key).is_null()) throw UserError("expected {}, got none", key);
  return formats::flag_or(component, key, false);
}

std::string short_string(const Json& component, const char* key) {
  const Json& value = formats::value_or_null(component, key);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > kMaxString)
    throw UserError("{}: expected a string of at most {} bytes, got {}", key, kMaxString, shown(value));
  return value.get<std::string>();
}

std::string one_character(const Json& component, const char* key) {
  const std::string value = short_string(component, key);
  if (value.empty() || utf8_length(value.front()) != value.size())
    throw UserError("{}: expected one character, got {}", key, value);
  return value;
}

}  // namespace routeopd::tokenizer
