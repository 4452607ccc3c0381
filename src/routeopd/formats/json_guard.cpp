// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/json_guard.h"

#include "routeopd/base/error.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::formats {
namespace {

constexpr std::int64_t kMaxValues = 1LL << 24U;  // 16 bytes each: 100 MB of "[1,1,…" would ask for 800 MB

}  // namespace

bool JsonGuard::operator()(int depth, Json::parse_event_t event, const Json& value) {
  using Event = Json::parse_event_t;
  if (depth >= kMaxJsonDepth) throw UserError("expected at most {} nested levels, got more", kMaxJsonDepth);
  if (event == Event::object_start) {
    keys_.resize(static_cast<std::size_t>(depth) + 1);
    keys_.back().clear();
  } else if (event == Event::key) {
    // The parser counts a key as one level deeper than its object.
    const auto& name = value.get_ref<const std::string&>();
    if (!keys_[static_cast<std::size_t>(depth) - 1].insert(name).second)
      throw UserError("expected each key once, got {} twice", name);
  } else if (event == Event::value && ++values_ > kMaxValues) {
    throw UserError("expected at most {} values, got more", kMaxValues);
  }
  return true;
}

}  // namespace routeopd::formats
