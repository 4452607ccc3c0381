// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/json_answer.h"

#include <charconv>

namespace routeopd::engine {

std::int64_t version_of_label(std::string_view label) {
  std::int64_t version = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), version);
  const bool ours = error == std::errc{} && end == label.data() + label.size() && version >= 0;
  return ours ? version : kForeignVersion;
}

}  // namespace routeopd::engine
