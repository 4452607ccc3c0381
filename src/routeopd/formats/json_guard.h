// Watches the parser of a JSON text that nobody vouches for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd::formats {

// A callback for Json::parse, by std::ref, one for each text. Throws UserError at the first repeated key, and
// at one level or value too many.
class JsonGuard {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& value);

 private:
  std::vector<std::unordered_set<std::string>> keys_;  // of the open object at each depth
  std::int64_t values_ = 0;
};

}  // namespace routeopd::formats
