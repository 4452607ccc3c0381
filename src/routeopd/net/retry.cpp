// SPDX-License-Identifier: Apache-2.0
#include "routeopd/net/retry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <thread>

#include "routeopd/base/interrupt.h"
#include "routeopd/base/philox.h"

namespace routeopd::net {

bool is_transient(int status) {
  return status == 408 || status == 409 || status == 429 || (status >= 500 && status <= 599);
}

bool is_transient(HttpFailure::Kind kind) {
  return kind != HttpFailure::Kind::kTooLarge && kind != HttpFailure::Kind::kCancelled;
}

double wait_after(const RetryRule& rule, int failed, std::optional<double> asked, std::uint64_t address) {
  if (asked && *asked > 0 && *asked <= rule.longest_asked) return *asked;
  const double wait = std::min(std::ldexp(rule.first_wait, std::min(failed, 64)), rule.longest_wait);
  const PhiloxBlock words =
      philox4x32({static_cast<std::uint32_t>(failed), 0, 0, 0}, static_cast<std::uint32_t>(address),
                 static_cast<std::uint32_t>(address >> 32));
  return wait * (1 - static_cast<double>(unit_uniform(words[0])) / 4);
}

void wait_seconds(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(std::max(seconds, 0.0)));
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    check_interrupt();
    std::this_thread::sleep_for(std::min<Clock::duration>(end - now, std::chrono::milliseconds(100)));
  }
  check_interrupt();
}

HttpAnswer post_with_retries(HttpClient& client, const HttpRequest& request, const RetryRule& rule,
                             std::uint64_t address, const std::function<bool()>& enough) {
  for (int failed = 0;; ++failed) {
    HttpAnswer answer;
    std::exception_ptr failure;
    try {
      answer = client.post(request);
      if (!is_transient(answer.status)) return answer;
    } catch (const HttpFailure& error) {
      if (!is_transient(error.kind())) throw;
      failure = std::current_exception();
    }
    bool last = failed >= rule.retries || (enough && enough());
    if (!last) {
      wait_seconds(wait_after(rule, failed, answer.retry_after, address));
      last = enough && enough();
    }
    if (last && failure) std::rethrow_exception(failure);
    if (last) return answer;
  }
}

}  // namespace routeopd::net
