// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/request_id.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <random>

namespace routeopd::serve {

bool is_request_id(std::string_view id) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:";
  return !id.empty() && id.size() <= kLongestRequestId &&
         id.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::string new_request_id() {
  thread_local std::random_device device;
  std::string id;
  for (int word = 0; word < 4; ++word) id += fmt::format("{:08x}", static_cast<std::uint32_t>(device()));
  return id;
}

std::int64_t seconds_now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace routeopd::serve
