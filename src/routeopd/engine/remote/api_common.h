// What several kinds of servers share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>

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

// The numbers at the start of "0.32.0+cpu"; -1 where there is none.
inline std::array<int, 3> release_in(const std::string& version) {
  std::array<int, 3> release = {-1, -1, -1};
  const char* at = version.data();
  const char* const end = version.data() + version.size();
  for (int& number : release) {
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || after == end || *after != '.') break;
    at = after + 1;
  }
  return release;
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

// Values must be log-probabilities, and where the server writes, those of the model and not of the decoding:
// one state is read, and written from at another temperature. Throws UnfitServer that ends with `how` to
// start it. `k` values are compared.
void check_log_probabilities(const ServerApi& api, Connection& server, const ServerInfo& info, bool writes,
                             std::int32_t k, const std::string& how);

}  // namespace routeopd::engine
