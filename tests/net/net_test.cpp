// Addresses, and when a request is repeated. Requests over the network are tested by tests/cli/judge_test.py.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "routeopd/net/retry.h"
#include "routeopd/net/url.h"
#include "testing_errors.h"

namespace routeopd::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Url, EndpointWithAndWithoutASlashIsTheSame) {
  for (const char* words :
       {"http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1//"}) {
    const Endpoint endpoint = read_endpoint(words);
    EXPECT_EQ(endpoint.url, "http://127.0.0.1:8000/v1");
    EXPECT_EQ(below(endpoint, "chat/completions"), "http://127.0.0.1:8000/v1/chat/completions");
    EXPECT_EQ(below(endpoint, "/chat/completions"), "http://127.0.0.1:8000/v1/chat/completions");
    EXPECT_EQ(endpoint.host, "127.0.0.1");
    EXPECT_FALSE(endpoint.encrypted);
    EXPECT_TRUE(endpoint.loopback);
  }
  const Endpoint bare = read_endpoint("https://judge.example");
  EXPECT_EQ(below(bare, "x"), "https://judge.example/x");
  EXPECT_TRUE(bare.encrypted);
  EXPECT_FALSE(bare.loopback);
}

TEST(Url, RefusesWhatIsNoPlainAddressAndRepeatsNoSecret) {
  for (const char* words :
       {"", "v1", "127.0.0.1:8000/v1", "ftp://127.0.0.1/v1", "file:///etc/passwd", "http:///v1",
        "http://a b/v1", "http://user:secret@127.0.0.1/v1", "http://secret@127.0.0.1/v1",
        "http://127.0.0.1/v1?key=secret", "http://127.0.0.1/v1#secret", "http://127.0.0.1/v1?",
        "http://127.0.0.1:99999/v1"}) {
    const std::string error = error_of([&] { read_endpoint(words); });
    EXPECT_THAT(error, HasSubstr("endpoint: ")) << words;
    EXPECT_THAT(error, Not(HasSubstr("secret"))) << words;
  }
}

TEST(Url, LoopbackIsThisMachineOnly) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "::1", "[::1]"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "127.0.0.1.example.com", "localhost.example.com", "128.0.0.1", "10.0.0.1",
                           "0.0.0.0", "::", "::2", "[::2]", "127.1.evil"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(Retry, OnlyWhatMayPass) {
  for (const int status : {408, 409, 429, 500, 502, 503, 599}) EXPECT_TRUE(is_transient(status)) << status;
  for (const int status : {200, 301, 400, 401, 403, 404, 413, 422, 600})
    EXPECT_FALSE(is_transient(status)) << status;
  EXPECT_TRUE(is_transient(HttpFailure::Kind::kConnect));
  EXPECT_TRUE(is_transient(HttpFailure::Kind::kTimeout));
  EXPECT_TRUE(is_transient(HttpFailure::Kind::kCut));
  EXPECT_FALSE(is_transient(HttpFailure::Kind::kTooLarge));
}

TEST(Retry, WaitsDoubleUpToTheLongestLessAQuarterAtMost) {
  const RetryRule rule;
  const std::vector<double> full{0.5, 1, 2, 4, 8, 8, 8};
  double least = 1;
  double most = 0;
  for (std::uint64_t address = 0; address < 200; ++address) {
    for (int failed = 0; failed < 7; ++failed) {
      const double wait = wait_after(rule, failed, {}, address);
      const double share = wait / full[static_cast<std::size_t>(failed)];
      ASSERT_GT(share, 0.75);
      ASSERT_LE(share, 1);
      least = std::min(least, share);
      most = std::max(most, share);
      EXPECT_EQ(wait, wait_after(rule, failed, {}, address));
    }
  }
  EXPECT_LT(least, 0.76);  // 1,400 draws cover the whole range
  EXPECT_GT(most, 0.99);
  EXPECT_LE(wait_after(rule, 1000000, {}, 1), 8);
}

TEST(Retry, ObeysTheServerWithinReason) {
  const RetryRule rule;
  EXPECT_EQ(wait_after(rule, 0, 3.0, 1), 3);
  EXPECT_EQ(wait_after(rule, 5, 60.0, 1), 60);
  EXPECT_EQ(wait_after(rule, 0, 61.0, 1), wait_after(rule, 0, {}, 1));
  EXPECT_EQ(wait_after(rule, 0, 0.0, 1), wait_after(rule, 0, {}, 1));
  EXPECT_EQ(wait_after(rule, 0, -5.0, 1), wait_after(rule, 0, {}, 1));
}

}  // namespace
}  // namespace routeopd::net
