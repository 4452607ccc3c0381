// When a failed request is repeated, and after how long: the rules of openai-python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "routeopd/net/http_client.h"

namespace routeopd::net {

struct RetryRule {
  int retries = 2;
  double first_wait = 0.5;    // seconds, doubled after each failure
  double longest_wait = 8;    // seconds
  double longest_asked = 60;  // seconds; a longer Retry-After is ignored
};

// 408, 409, 429 and 500 to 599: the same request may succeed later.
bool is_transient(int status);

// No connection, a time limit, a broken connection. Not an answer that is too long: it would be too long
// again.
bool is_transient(HttpFailure::Kind kind);

// Seconds to wait after the `failed`-th failure (from 0): what the server asks for, where that is more than 0
// and at most longest_asked; else min(first_wait · 2^failed, longest_wait) · (1 - u/4), u from [0, 1), so
// that requests that failed together are not all repeated together. u depends on `address`, which names the
// request, and on `failed` alone.
double wait_after(const RetryRule& rule, int failed, std::optional<double> asked, std::uint64_t address);

// Sleeps; throws Interrupted within a fifth of a second of a signal.
void wait_seconds(double seconds);

// The first answer that is not repeatable, else the last one. Throws the last HttpFailure where no answer
// arrived, and Interrupted. Once `enough` returns true nothing is repeated.
HttpAnswer post_with_retries(HttpClient& client, const HttpRequest& request, const RetryRule& rule,
                             std::uint64_t address, const std::function<bool()>& enough = {});

}  // namespace routeopd::net
