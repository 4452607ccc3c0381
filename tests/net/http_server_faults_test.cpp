// Clients that are slow, silent, many, too large, malformed or gone: each is dealt with, and holds back
// nobody.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <future>
#include <thread>
#include <vector>

#include "net/http_testing.h"
#include "routeopd/net/http_server.h"

namespace routeopd::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string post_of(std::size_t length, std::string_view more = "") {
  return fmt::format("POST / HTTP/1.1\r\nHost: t\r\n{}Content-Length: {}\r\n\r\n", more, length);
}

constexpr std::string_view kChunked = "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";

// Seconds of processor time of this process.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Sets the number of files that may be open, until it is destroyed.
class FileLimit {
 public:
  explicit FileLimit(rlim_t files) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit now{.rlim_cur = files, .rlim_max = before_.rlim_max};
    held_ = ::setrlimit(RLIMIT_NOFILE, &now) == 0;
  }
  ~FileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  bool held() const { return held_; }

 private:
  rlimit before_{};
  bool held_ = false;
};

// When a client goes away, and how its answer ended. Callbacks share it, so that they may come late.
struct Departure {
  std::promise<TestClock::time_point> gone;
  std::promise<int> done;

  static std::shared_ptr<Departure> of(Reply& reply) {
    auto departure = std::make_shared<Departure>();
    reply.on_gone([departure] { departure->gone.set_value(TestClock::now()); });
    reply.on_done([departure](int status, std::int64_t) { departure->done.set_value(status); });
    return departure;
  }
  // Milliseconds after `since`, or -1 if nothing is noticed for ten seconds.
  std::int64_t noticed_after(TestClock::time_point since) {
    auto future = gone.get_future();
    if (future.wait_for(10s) != std::future_status::ready) return -1;
    return std::chrono::duration_cast<std::chrono::milliseconds>(future.get() - since).count();
  }
  // The status, or -1 if the answer does not end for ten seconds.
  int status() {
    auto future = done.get_future();
    return future.wait_for(10s) == std::future_status::ready ? future.get() : -1;
  }
};

TEST(HttpFaults, BodiesOverTheLimitGet413) {
  HttpServer server({.most_body_bytes = 1 << 20}, echo);
  {
    RawClient client(server.port());
    client.send(post_of(1 << 20));
    client.send(std::string(1 << 20, 'x'));
    EXPECT_EQ(client.read_answer().status(), 200);  // the limit itself is within
  }
  {
    RawClient client(server.port());
    client.send(post_of((1 << 20) + 1));  // no byte of the body: its length says enough
    const auto answer = client.read_answer();
    EXPECT_EQ(answer.status(), 413);
    EXPECT_THAT(answer.header, HasSubstr("Connection: close"));
    EXPECT_THAT(answer.header, HasSubstr("Content-Type: application/json"));
    EXPECT_THAT(answer.body, HasSubstr("1048576 bytes"));
    EXPECT_TRUE(client.ends_within(1s));
    EXPECT_FALSE(client.was_reset());
  }
  {
    RawClient client(server.port());
    client.send(post_of(1 << 30, "Expect: 100-continue\r\n"));
    EXPECT_EQ(client.read_answer().status(), 413);
  }
  {
    RawClient client(server.port());  // who sends everything before it reads sees the answer, too
    EXPECT_TRUE(client.send(post_of(20 << 20)));
    EXPECT_TRUE(client.send(std::string(20 << 20, 'x')));
    EXPECT_EQ(client.read_answer().status(), 413);
  }
  for (const std::size_t chunk : {std::size_t{1} << 10, std::size_t{2} << 20}) {
    RawClient client(server.port());
    client.send(kChunked);
    const std::string piece = fmt::format("{:x}\r\n{}\r\n", chunk, std::string(chunk, 'x'));
    for (std::size_t sent = 0; sent <= 1 << 20; sent += chunk) client.send(piece);
    EXPECT_EQ(client.read_answer().status(), 413) << chunk;
  }
  {
    RawClient client(server.port());
    client.send(std::string(kChunked) + "ffffffffffffffff\r\n");
    EXPECT_EQ(client.read_answer().status(), 413);
  }
}

TEST(HttpFaults, AllBodiesTogetherAreBounded) {
  Inbox inbox;
  HttpServer server({.most_body_bytes = 1 << 20, .most_bytes_of_all_bodies = 3 << 19}, inbox.handler());
  const std::string whole = post_of(1 << 20) + std::string(1 << 20, 'x');
  RawClient first(server.port());
  first.send(whole);
  auto item = inbox.take();
  RawClient second(server.port());
  second.send(whole);
  const auto refused = second.read_answer();
  EXPECT_EQ(refused.status(), 503);
  EXPECT_THAT(refused.header, HasSubstr("Retry-After: 1\r\n"));
  item.reply->send(200, {}, "", "first");
  EXPECT_EQ(first.read_answer().body, "first");
  RawClient third(server.port());
  third.send(whole);
  inbox.take().reply->send(200, {}, "", "third");
  EXPECT_EQ(third.read_answer().body, "third");
}

TEST(HttpFaults, HeadersOverTheLimitGet431) {
  HttpServer server({.most_header_bytes = 8 << 10}, echo);
  const std::string line(100, 'x');
  std::string many = "GET / HTTP/1.1\r\n";
  for (int n = 0; n < 500; ++n) many += fmt::format("X-{}: {}\r\n", n, line);
  for (const std::string& request :
       {many, "GET / HTTP/1.1\r\nX: " + std::string(100 << 10, 'x'), "GET /" + std::string(9 << 10, 'x')}) {
    RawClient client(server.port());
    client.send(request);
    EXPECT_EQ(client.read_answer().status(), 431) << request.size();
    EXPECT_TRUE(client.ends_within(5s));
  }
  RawClient client(server.port());
  client.send(get("/" + std::string(7 << 10, 'x')));
  EXPECT_EQ(client.read_answer().status(), 200);
}

TEST(HttpFaults, WhatIsNotHttpGets400) {
  HttpServer server({}, echo);
  for (const std::string& request : {
           std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // the first bytes of TLS
           std::string("hello\r\n\r\n"),
           std::string("GET\r\n\r\n"),
           std::string("GET / HTTQ/1.1\r\n\r\n"),
           std::string("GET / HTTP/2.0\r\n\r\n"),
           std::string("GET /\x01 HTTP/1.1\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nno colon\r\n\r\n"),
           std::string("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
           std::string("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
           std::string("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc"),
           std::string("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc"),
           std::string("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"),
           std::string(kChunked) + "zz\r\n",
           std::string(kChunked) + "1\r\nab\r\n0\r\n\r\n",
           std::string(kChunked) + "1;x=" + std::string(200 << 10, 'x'),
       }) {
    RawClient client(server.port());
    client.send(request);
    const auto answer = client.read_answer();
    EXPECT_EQ(answer.status(), 400) << request.substr(0, 80);
    EXPECT_TRUE(answer.whole);
    EXPECT_TRUE(client.ends_within(5s));
  }
}

TEST(HttpFaults, SlowRequestsGet408) {
  HttpServer server({.read_time = 300ms}, echo);
  const auto expect_408 = [&](std::string_view begin, bool trickles) {
    RawClient client(server.port());
    std::this_thread::sleep_for(150ms);  // before the first byte no time runs
    const auto before = TestClock::now();
    client.send(begin);
    while (trickles && TestClock::now() - before < 400ms) {
      client.send("x");
      std::this_thread::sleep_for(10ms);
    }
    const auto answer = client.read_answer();
    EXPECT_EQ(answer.status(), 408) << begin;
    EXPECT_THAT(answer.body, HasSubstr("0.3 s"));
    EXPECT_GE(TestClock::now() - before, 290ms) << begin;
    EXPECT_LT(TestClock::now() - before, 1500ms) << begin;
    EXPECT_TRUE(client.ends_within(5s));
  };
  expect_408(post_of(1000), true);
  expect_408(post_of(1000) + "half a body", false);
  expect_408(post_of(1000, "Expect: 100-Continue\r\n").substr(0, 30), false);
  expect_408("GET / HTTP/1.1\r\nX: ", true);
  expect_408("G", false);
  expect_408(std::string(kChunked) + "5\r\nab", false);
}

TEST(HttpFaults, IdleConnectionsCloseWithoutAWord) {
  HttpServer server({.idle_time = 200ms}, echo);
  RawClient silent(server.port());
  RawClient once(server.port());
  std::this_thread::sleep_for(100ms);
  const auto before = TestClock::now();
  once.send(get("/"));
  EXPECT_EQ(once.read_answer().status(), 200);
  EXPECT_TRUE(silent.ends_within(2s));
  EXPECT_TRUE(once.ends_within(2s));
  EXPECT_GE(TestClock::now() - before, 190ms);
  EXPECT_EQ(silent.read_all() + once.read_all(), "");
  EXPECT_EQ(server.connections(), 0);
}

// Milliseconds until the server notices that a client with a pending answer leaves in the way of `how`.
std::int64_t time_to_notice(HttpServer& server, Inbox& inbox, bool stream, std::string_view pipelined,
                            std::string_view how) {
  RawClient client(server.port());
  client.send(get("/"));
  const auto item = inbox.take();
  const auto departure = Departure::of(*item.reply);
  if (stream) item.reply->begin(200, {}, "");
  if (stream) client.read_until("\r\n\r\n");
  client.send(pipelined);
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(server.connections(), 1);
  const auto before = TestClock::now();
  if (how == "close") client.close();
  if (how == "half") client.close_sending();
  if (how == "reset") client.reset();
  const auto milliseconds = departure->noticed_after(before);
  EXPECT_GE(milliseconds, 0) << how << pipelined;
  EXPECT_EQ(departure->status(), stream ? 200 : 0);
  const auto late = Departure::of(*item.reply);  // of one that is gone already
  EXPECT_GE(late->noticed_after(before), 0);
  item.reply->send(200, {}, "", "to nobody");
  return milliseconds;
}

TEST(HttpFaults, ClientsThatLeaveAreNoticedAtOnce) {
  Inbox inbox;
  HttpServer server({}, inbox.handler());
  for (const bool stream : {false, true})
    for (const std::string_view pipelined : {"", "GET /next HTTP/1.1\r\n"})
      for (const std::string_view how : {"close", "half", "reset"}) {
        std::int64_t least = 1000;  // of a few tries: a busy machine may take its time once
        for (int tries = 0; tries < 5 && least >= 100; ++tries)
          least = std::min(least, time_to_notice(server, inbox, stream, pipelined, how));
        EXPECT_LT(least, 100) << how << pipelined;
      }
}

TEST(HttpFaults, PipelinedBytesAreNoDepartureAndCostNoTime) {
  Inbox inbox;
  HttpServer server({}, inbox.handler());
  RawClient client(server.port());
  client.send(get("/1"));
  const auto item = inbox.take();
  item.reply->on_gone([] { ADD_FAILURE() << "the client is there"; });
  client.send(get("/2"));
  const double before = processor_seconds();
  std::this_thread::sleep_for(400ms);
  EXPECT_LT(processor_seconds() - before, 0.2);
  item.reply->send(200, {}, "", "1");
  inbox.take().reply->send(200, {}, "", "2");
  EXPECT_EQ(client.read_answer().body, "1");
  EXPECT_EQ(client.read_answer().body, "2");
}

TEST(HttpFaults, WhatWaitsForASlowReaderIsBounded) {
  Inbox inbox;
  HttpServer server({}, inbox.handler());
  RawClient client(server.port(), 4 << 10);
  client.send(get("/"));
  const auto item = inbox.take();
  const auto departure = Departure::of(*item.reply);
  item.reply->begin(200, {}, "");
  const auto before = TestClock::now();
  auto gone = departure->gone.get_future();
  int pieces = 0;  // of a mebibyte
  for (; pieces < 200 && gone.wait_for(1ms) != std::future_status::ready; ++pieces)
    item.reply->write(std::string(1 << 20, 'x'));
  EXPECT_GT(pieces, 64);  // beside what the sockets take
  EXPECT_LT(pieces, 100);
  EXPECT_LT(TestClock::now() - before, 10s);
}

TEST(HttpFaults, AClientThatTakesNoByteIsGone) {
  Inbox inbox;
  HttpServer server({.write_time = 300ms}, inbox.handler());
  {
    RawClient client(server.port(), 4 << 10);
    client.send(get("/"));
    const auto item = inbox.take();
    const auto departure = Departure::of(*item.reply);
    const auto before = TestClock::now();
    item.reply->send(200, {}, "", std::string(30 << 20, 'x'));
    const auto milliseconds = departure->noticed_after(before);
    EXPECT_GE(milliseconds, 290);
    EXPECT_LT(milliseconds, 1500);
    EXPECT_EQ(departure->status(), 200);
  }
  // Slow is not gone: it takes longer than that in all, never without a byte.
  RawClient client(server.port(), 4 << 10);
  client.send(get("/"));
  const auto item = inbox.take();
  item.reply->on_gone([] { ADD_FAILURE() << "the client is there"; });
  item.reply->send(200, {}, "", std::string(8 << 20, 'x'));
  std::size_t read = 0;
  for (int n = 0; n < 60; ++n) {
    read += client.read_bytes(20 << 10).size();
    std::this_thread::sleep_for(20ms);
  }
  while (read < 8 << 20) {
    const std::size_t more = client.read_bytes(std::min<std::size_t>((8 << 20) - read, 1 << 20)).size();
    ASSERT_GT(more, 0U);
    read += more;
  }
}

TEST(HttpFaults, AThousandSilentConnectionsHoldBackNobody) {
  const FileLimit files(2400);
  if (!files.held()) GTEST_SKIP() << "this machine allows fewer open files";
  HttpServer server({}, echo);
  std::vector<RawClient> silent;
  for (int n = 0; n < 1000; ++n) {
    silent.emplace_back(server.port());
    if (n % 2 == 0) silent.back().send("POST / HTTP/1.1\r\nContent-Le");  // half of them have begun
  }
  RawClient client(server.port());
  const auto before = TestClock::now();
  for (int n = 0; n < 100; ++n) {
    client.send(get("/"));
    EXPECT_EQ(client.read_answer().status(), 200);
  }
  EXPECT_LT(TestClock::now() - before, 1s);
  EXPECT_EQ(server.connections(), 1001);
}

TEST(HttpFaults, BeyondTheLimitTheLongestIdleIsClosed) {
  HttpServer server({.most_connections = 3}, echo);
  std::vector<RawClient> clients;
  for (int n = 0; n < 3; ++n) {
    clients.emplace_back(server.port());
    clients.back().send(get("/"));
    EXPECT_EQ(clients.back().read_answer().status(), 200);
  }
  clients[0].send(get("/"));  // now the second has been idle longest
  EXPECT_EQ(clients[0].read_answer().status(), 200);
  RawClient fourth(server.port());
  fourth.send(get("/"));
  EXPECT_EQ(fourth.read_answer().status(), 200);
  EXPECT_TRUE(clients[1].ends_within(1s));
  for (const std::size_t n : {std::size_t{0}, std::size_t{2}}) {
    clients[n].send(get("/"));
    EXPECT_EQ(clients[n].read_answer().status(), 200);
  }
  EXPECT_EQ(server.connections(), 3);
}

TEST(HttpFaults, BeyondTheLimitWithNoneIdle503) {
  Inbox inbox;
  HttpServer server({.most_connections = 2}, inbox.handler());
  RawClient first(server.port());
  first.send(get("/"));
  const auto item = inbox.take();
  RawClient reading(server.port());
  reading.send("POST");
  std::this_thread::sleep_for(50ms);
  RawClient third(server.port());
  third.send(get("/"));
  const auto refused = third.read_answer();
  EXPECT_EQ(refused.status(), 503);
  EXPECT_THAT(refused.header, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_TRUE(third.ends_within(1s));
  std::vector<RawClient> flood;
  for (int n = 0; n < 150; ++n) flood.emplace_back(server.port());
  std::this_thread::sleep_for(100ms);
  EXPECT_LE(server.connections(), 2 + 64);
  flood.clear();
  item.reply->send(200, {}, "", "first");
  EXPECT_EQ(first.read_answer().body, "first");
}

TEST(HttpFaults, WithoutDescriptorsItWaitsAndGoesOn) {
  std::atomic<int> complaints = 0;
  ServerOptions options;
  options.log = [&](std::string_view line) { complaints += line.starts_with("cannot take a connection"); };
  HttpServer server(options, echo);
  std::vector<int> filling;
  {
    const FileLimit files(200);
    ASSERT_TRUE(files.held());
    for (int copy = 0; (copy = ::dup(0)) >= 0;) filling.push_back(copy);
    ASSERT_FALSE(filling.empty());
    ::close(filling.back());
    filling.pop_back();
    RawClient client(server.port());  // takes the last descriptor
    client.send(get("/"));
    const double before = processor_seconds();
    std::this_thread::sleep_for(500ms);
    EXPECT_LT(processor_seconds() - before, 0.2);
    EXPECT_EQ(complaints, 1);
    for (const int copy : filling) ::close(copy);
    EXPECT_EQ(client.read_answer().status(), 200);
  }
}

TEST(HttpFaults, ConnectionsThatComeAndGoLeaveNothing) {
  HttpServer server({}, echo);
  for (int n = 0; n < 300; ++n) {
    RawClient client(server.port());
    if (n % 3 == 0) client.send(get("/"));
    if (n % 3 == 1) client.send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
    if (n % 2 == 0) client.reset();
  }
  for (int n = 0; n < 100 && server.connections() > 0; ++n) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(server.connections(), 0);
}

}  // namespace
}  // namespace routeopd::net
