//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/json_value.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"

namespace routeopd::jinja {
namespace {

Value text_of(Heap& heap, const std::string& bytes) {
  if (!is_utf8(bytes)) throw UserError("expected UTF-8, got other bytes");
  return heap.text(bytes);
}

}  // namespace

Value value_of(Heap& heap, const OrderedJson& json, int depth) {
  using Type = OrderedJson::value_t;
  if (depth >= kMaxNesting) throw UserError("expected at most {} nested levels, got more", kMaxNesting);
  heap.spend(1);
  switch (json.type()) {
    case Type::null:
      return None{};
    case Type::boolean:
      return json.get<bool>();
    case Type::number_integer:
      return json.get<std::int64_t>();
    case Type::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw UserError("expected integers below 2^63, got {}", json.get<std::uint64_t>());
      return json.get<std::int64_t>();
    case Type::number_float:
      return json.get<double>();
    case Type::string:
      return text_of(heap, json.get_ref<const std::string&>());
    case Type::array: {
      Values items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(value_of(heap, item, depth + 1));
      return heap.list(std::move(items));
    }
    case Type::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items())
        entries.emplace_back(text_of(heap, key), value_of(heap, item, depth + 1));
      return heap.dict(std::move(entries));
    }
    default:
      throw UserError("expected a value of JSON, got {}", json.type_name());
  }
}

}  // namespace routeopd::jinja
