// What several kinds of servers share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <utility>

#include "routeopd/base/philox.h"
#include "routeopd/engine/remote/server_api.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::engine {

// One object, small: what a server says of itself.
inline Json object_in(const std::string& body, const std::string& what) {
  try {
    return formats::parse_json_object(body, what);
  } catch (const UserError& error) {
    throw BadAnswer(error.what());
  }
}

inline std::string text_in(const Json& object, const char* key) {
  const Json& value = formats::value_or_null(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// Two numbers at the start of "0.32.0+cpu".
inline std::pair<int, int> release_in(const std::string& version) {
  int major = -1, minor = -1;
  const char* end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error == std::errc{} && dot != end && *dot == '.') std::from_chars(dot + 1, end, minor);
  return {major, minor};
}

// Bits that depend on the response's address alone.
inline std::uint64_t response_seed(const Sampling& sampling, std::uint32_t prompt, std::int32_t sample) {
  const StateAddress address{
      .step = sampling.step, .prompt = prompt, .response = static_cast<std::uint32_t>(sample)};
  check_address(address);
  constexpr std::uint32_t kSeedOfResponse = 1;  // draw 0 is the local engine's uniform number
  const PhiloxBlock words = addressed_words(sampling.seed, Purpose::kDecode, address, kSeedOfResponse);
  return std::uint64_t{words[1]} << 32U | words[0];
}

}  // namespace routeopd::engine
