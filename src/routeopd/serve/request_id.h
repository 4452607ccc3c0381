// What requests are called in answers and logs: given by the client, or made here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace routeopd::serve {

inline constexpr std::size_t kLongestRequestId = 128;

// Whether a client's name may stand in headers, JSON and log lines: letters, digits and -_.: only.
bool is_request_id(std::string_view id);

// 32 hexadecimal digits at random.
std::string new_request_id();

// Seconds since 1970, as "created" counts them.
std::int64_t seconds_now();

}  // namespace routeopd::serve
