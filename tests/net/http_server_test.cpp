// HTTP as clients should speak it: requests, whole answers and answers in pieces, and a server that stops.
// Clients that misbehave are tested in http_server_faults_test.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/net/http_server.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <thread>

#include "net/http_testing.h"
#include "routeopd/net/http_client.h"
#include "testing_errors.h"

namespace routeopd::net {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HttpServer, AnswersTheProjectsOwnClient) {
  HttpServer server({}, [](IncomingRequest request, const std::shared_ptr<Reply>& reply) {
    EXPECT_EQ(request.header("content-type"), "application/json");
    EXPECT_EQ(request.header("absent"), "");
    EXPECT_THAT(request.client, StartsWith("127.0.0.1:"));
    reply->send(429, {{"Retry-After", "7"}}, "application/json", request.body + request.path);
  });
  HttpClient client;
  for (int n = 0; n < 3; ++n) {
    const HttpAnswer answer = client.post({.url = fmt::format("http://127.0.0.1:{}/v1/x", server.port()),
                                           .headers = {},
                                           .body = "{}",
                                           .limits = {}});
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(answer.body, "{}/v1/x");
    EXPECT_EQ(answer.retry_after, 7);
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpServer, LargeBodiesComeAndGoWhole) {
  HttpServer server({}, echo);
  HttpClient client;
  std::string body(20 << 20, 'x');
  for (std::size_t n = 0; n < body.size(); n += 997) body[n] = static_cast<char>('a' + n % 23);
  HttpRequest request{
      .url = fmt::format("http://127.0.0.1:{}/", server.port()), .headers = {}, .body = body, .limits = {}};
  request.limits.body_bytes = 64 << 20;
  EXPECT_TRUE(client.post(request).body == "POST /||" + body);
}

TEST(HttpServer, KeepsConnectionsAndSplitsTargets) {
  HttpServer server({}, echo);
  RawClient client(server.port());
  for (const auto& [target, seen] :
       {std::pair{"/a/b?c=d&e", "GET /a/b|c=d&e|"}, std::pair{"/", "GET /||"}, std::pair{"/a?", "GET /a||"},
        std::pair{"http://other:8000/x?y", "GET /x|y|"}, std::pair{"http://other", "GET /||"}}) {
    client.send(get(target));
    const auto answer = client.read_answer();
    EXPECT_EQ(answer.body, seen);
    EXPECT_THAT(answer.header, HasSubstr("\r\nDate: "));
    EXPECT_THAT(answer.header, HasSubstr("\r\nContent-Type: text/plain\r\n"));
    EXPECT_THAT(answer.header, Not(HasSubstr("close")));
  }
  client.send(get("/last", "Connection: close\r\n"));
  EXPECT_THAT(client.read_answer().header, HasSubstr("Connection: close"));
  EXPECT_TRUE(client.ends_within(1s));
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  Inbox inbox;
  HttpServer server({}, inbox.handler());
  RawClient client(server.port());
  std::string all;
  for (int n = 0; n < 20; ++n) all += n % 2 == 0 ? get(fmt::format("/{}", n)) : post(fmt::format("<{}>", n));
  client.send(all);
  for (int n = 0; n < 20; ++n) {
    const auto item = inbox.take();
    EXPECT_EQ(item.request.path + item.request.body,
              n % 2 == 0 ? fmt::format("/{}", n) : fmt::format("/p<{}>", n));
    {
      const std::lock_guard lock(inbox.mutex);
      EXPECT_TRUE(inbox.items.empty());  // the next is read when this one is answered
    }
    item.reply->send(200, {}, "", std::to_string(n));
  }
  for (int n = 0; n < 20; ++n) EXPECT_EQ(client.read_answer().body, std::to_string(n));
}

TEST(HttpServer, SendsHundredContinueBeforeTheBody) {
  HttpServer server({}, echo);
  RawClient client(server.port());
  client.send("POST /p HTTP/1.1\r\nHost: t\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  EXPECT_EQ(client.read_answer().body, "POST /p||hello");
  // Who sends the body along needs no leave.
  client.send("POST /p HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_EQ(client.read_answer().body, "POST /p||hello");
}

TEST(HttpServer, TakesChunkedUploads) {
  HttpServer server({}, echo);
  RawClient client(server.port());
  client.send("POST /p HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n");
  std::this_thread::sleep_for(20ms);
  client.send("6;name=value\r\npedia \r\n0\r\nTrailer: x\r\n\r\n" + get("/next"));
  EXPECT_EQ(client.read_answer().body, "POST /p||wikipedia ");
  EXPECT_EQ(client.read_answer().body, "GET /next||");
}

TEST(HttpServer, HeadHasTheLengthAndNoBody) {
  HttpServer server({}, [](const IncomingRequest& request, const std::shared_ptr<Reply>& reply) {
    if (request.path != "/stream") return reply->send(request.path == "/204" ? 204 : 200, {}, "a/b", "12345");
    reply->begin(200, {}, "a/b");
    reply->write("12345");
    reply->finish();
  });
  RawClient client(server.port());
  client.send("HEAD / HTTP/1.1\r\nHost: t\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: t\r\n\r\n" + get("/204") +
              get("/"));
  const auto begins = StartsWith("HTTP/1.1 20");  // right behind the header of the answer before
  EXPECT_THAT(client.read_answer(false).header, AllOf(begins, HasSubstr("Content-Length: 5\r\n")));
  EXPECT_THAT(client.read_answer(false).header, AllOf(begins, HasSubstr("Transfer-Encoding: chunked\r\n")));
  const auto empty = client.read_answer(false);
  EXPECT_EQ(empty.status(), 204);
  EXPECT_THAT(empty.header, AllOf(begins, Not(HasSubstr("Content-Length"))));
  const auto whole = client.read_answer();
  EXPECT_THAT(whole.header, begins);
  EXPECT_EQ(whole.body, "12345");
}

TEST(HttpServer, StreamsInOrderCompleteAndAtOnce) {
  Inbox inbox;
  HttpServer server({}, inbox.handler());
  RawClient client(server.port());
  client.send(get("/") + get("/after"));
  const auto item = inbox.take();
  std::promise<std::pair<int, std::int64_t>> done;
  item.reply->on_gone([] { ADD_FAILURE() << "the client is there"; });
  item.reply->on_done([&](int status, std::int64_t bytes) { done.set_value({status, bytes}); });
  item.reply->begin(201, {{"X-A", "b"}}, "text/event-stream");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 201 Created\r\n"));
  const auto before = TestClock::now();
  for (int n = 0; n < 50; ++n) {  // each is read before the next is written
    client.delay_acknowledgements();
    item.reply->write("");
    item.reply->write(fmt::format("token {}", n));
    EXPECT_EQ(client.read_until("token " + std::to_string(n)),
              fmt::format("{}\r\ntoken {}", n < 10 ? 7 : 8, n));
    EXPECT_EQ(client.read_bytes(2), "\r\n");
  }
  EXPECT_LT(TestClock::now() - before, 1s);  // with Nagle's algorithm: 40 ms each
  std::string all;
  for (int n = 0; n < 5000; ++n) {
    const std::string piece(static_cast<std::size_t>(n % 700 + 1), static_cast<char>('a' + n % 26));
    all += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
    item.reply->write(piece);
  }
  item.reply->finish();
  all += "0\r\n\r\n";
  EXPECT_TRUE(client.read_bytes(all.size()) == all);
  const auto [status, bytes] = done.get_future().get();
  EXPECT_EQ(status, 201);
  EXPECT_GT(bytes, static_cast<std::int64_t>(all.size()));
  inbox.take().reply->send(200, {}, "", "after");
  EXPECT_EQ(client.read_answer().body, "after");
}

TEST(HttpServer, DropCutsAStreamSoThatItIsSeen) {
  Inbox inbox;
  HttpServer server({}, inbox.handler());
  for (const std::string version : {"1.1", "1.0"}) {
    RawClient client(server.port());
    client.send("GET / HTTP/" + version + "\r\nHost: t\r\n\r\n");
    const auto item = inbox.take();
    std::promise<int> done;
    item.reply->on_gone([] { ADD_FAILURE() << "the client is there"; });
    item.reply->on_done([&](int status, std::int64_t) { done.set_value(status); });
    item.reply->begin(200, {}, "");
    item.reply->write("half");
    EXPECT_THAT(client.read_until("half"), EndsWith("half"));
    item.reply->drop();
    EXPECT_EQ(done.get_future().get(), 200);
    EXPECT_TRUE(client.ends_within(1s));
    EXPECT_THAT(client.read_all(), Not(HasSubstr("0\r\n")));
    EXPECT_EQ(client.was_reset(), version == "1.0");
    item.reply->write("more");  // goes nowhere
    item.reply->finish();
  }
}

TEST(HttpServer, OldClientsGetNoChunks) {
  HttpServer server({}, [](const IncomingRequest& request, const std::shared_ptr<Reply>& reply) {
    if (request.path == "/whole") return echo(request, reply);
    reply->begin(200, {}, "a/b");
    reply->write("one ");
    reply->write("two");
    reply->finish();
  });
  RawClient closing(server.port());
  closing.send("GET /whole HTTP/1.0\r\n\r\n");
  EXPECT_THAT(closing.read_all(), EndsWith("\r\n\r\nGET /whole||"));
  RawClient client(server.port());
  client.send("GET /whole HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(client.read_answer().header, HasSubstr("Connection: keep-alive"));
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string all = client.read_all();
  EXPECT_THAT(all, EndsWith("\r\n\r\none two"));
  EXPECT_THAT(all, Not(HasSubstr("chunked")));
  EXPECT_THAT(all, Not(HasSubstr("keep-alive")));
}

TEST(HttpServer, HandlersThatThrowOrForgetAreAnsweredFor) {
  std::mutex mutex;
  std::string logged;
  ServerOptions options;
  options.log = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    logged += line;
  };
  options.error_body = [](int status, std::string_view) { return fmt::format("<{}>", status); };
  HttpServer server(options, [](const IncomingRequest& request, const std::shared_ptr<Reply>& reply) {
    if (request.path == "/throws") throw std::runtime_error("a fault of the handler");
    if (request.path == "/other") throw 3;
    if (request.path == "/half") {
      reply->begin(200, {}, "");
      reply->write("half");
    }
    if (request.path == "/late") {
      reply->send(200, {}, "", "late");
      throw std::runtime_error("after the answer");
    }
    if (request.path == "/splits") reply->send(200, {{"X", "a\r\nSet-Cookie: b"}, {"Y", "c"}}, "", "splits");
  });
  RawClient client(server.port());
  for (const char* path : {"/throws", "/other", "/forgets"}) {
    client.send(get(path));
    const auto answer = client.read_answer();
    EXPECT_EQ(answer.status(), 500) << path;
    EXPECT_EQ(answer.body, "<500>");
  }
  client.send(get("/late"));
  EXPECT_EQ(client.read_answer().body, "late");
  client.send(get("/splits"));
  EXPECT_THAT(client.read_answer().header, AllOf(Not(HasSubstr("Cookie")), HasSubstr("Y: c")));
  client.send(get("/half"));
  const auto half = client.read_answer();
  EXPECT_EQ(half.body, "half");
  EXPECT_FALSE(half.whole);
  const std::lock_guard lock(mutex);
  EXPECT_THAT(logged, HasSubstr("GET /throws: a fault of the handler"));
}

TEST(HttpServer, ManyThreadsAnswerManyClients) {
  HttpServer server({}, [](IncomingRequest request, std::shared_ptr<Reply> reply) {
    std::thread([request = std::move(request), reply = std::move(reply)] {
      reply->begin(200, {}, "");
      for (int n = 0; n < 20; ++n) reply->write(request.path);
      reply->finish();
    }).detach();
  });
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int client = 0; client < 8; ++client)
    threads.emplace_back([&, client] {
      RawClient raw(server.port());
      for (int n = 0; n < 50; ++n) {
        const std::string path = fmt::format("/{}/{}", client, n);
        raw.send(get(path));
        std::string want;
        for (int k = 0; k < 20; ++k) want += path;
        if (raw.read_answer().body == want) ++right;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

TEST(HttpServer, ListensOnNamesAndIpv6) {
  HttpServer named({.host = "localhost"}, echo);
  RawClient client(named.port());
  client.send(get("/"));
  EXPECT_EQ(client.read_answer().status(), 200);
  const std::string error = error_of([&] {
    HttpServer six({.host = "[::1]"}, echo);
    EXPECT_GT(six.port(), 0);
  });
  if (!error.empty()) {  // a machine without IPv6
    EXPECT_THAT(error, HasSubstr("cannot listen on [::1]"));
  }
}

TEST(HttpServer, SaysWhyItCannotListen) {
  HttpServer first({}, echo);
  EXPECT_THAT(error_of([&] { HttpServer second({.port = first.port()}, echo); }),
              AllOf(HasSubstr(fmt::format("cannot listen on 127.0.0.1, port {}: ", first.port())),
                    HasSubstr("choose another port")));
  EXPECT_THAT(error_of([&] { HttpServer server({.host = "192.0.2.1"}, echo); }),
              AllOf(HasSubstr("cannot listen on 192.0.2.1"), HasSubstr("127.0.0.1")));
}

TEST(HttpServer, StopWaitsForAnswersAndTakesNoMore) {
  Inbox inbox;
  HttpServer server({}, inbox.handler());
  RawClient pending(server.port());
  pending.send(get("/") + get("/second"));
  const auto item = inbox.take();
  RawClient idle(server.port());
  RawClient half(server.port());
  half.send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf");
  std::this_thread::sleep_for(50ms);
  server.stop_accepting();
  EXPECT_TRUE(idle.ends_within(1s));
  EXPECT_EQ(half.read_answer().status(), 503);
  EXPECT_THROW(RawClient(server.port()), std::runtime_error);
  std::thread late([&] {
    std::this_thread::sleep_for(200ms);
    item.reply->send(200, {}, "", "late");
  });
  half.close();
  const auto before = TestClock::now();
  auto stopped = std::async(std::launch::async, [&] { server.stop(5s); });
  const auto answer = pending.read_answer();
  EXPECT_EQ(answer.body, "late");
  EXPECT_THAT(answer.header, HasSubstr("Connection: close"));
  EXPECT_TRUE(pending.ends_within(1s));
  pending.close();
  stopped.get();
  EXPECT_LT(TestClock::now() - before, 2s);
  EXPECT_GE(TestClock::now() - before, 150ms);
  EXPECT_EQ(server.connections(), 0);
  late.join();
}

TEST(HttpServer, StopGivesUpWhatPendsAndRepliesOutliveTheServer) {
  Inbox inbox;
  Inbox::Item whole;
  Inbox::Item stream;
  std::atomic<int> gone = 0;
  std::atomic<int> done = 0;

  {
    HttpServer server({}, inbox.handler());
    RawClient first(server.port());
    first.send(get("/"));
    whole = inbox.take();
    RawClient second(server.port());
    second.send(get("/"));
    stream = inbox.take();
    stream.reply->begin(200, {}, "");
    for (const auto& item : {whole, stream}) {
      item.reply->on_gone([&] { ++gone; });
      item.reply->on_done([&](int, std::int64_t) { ++done; });
    }
    const auto before = TestClock::now();
    server.stop(100ms);
    EXPECT_GE(TestClock::now() - before, 100ms);
    EXPECT_LT(TestClock::now() - before, 1s);
    server.stop(5s);  // again does nothing
    EXPECT_EQ(gone, 2);
    EXPECT_EQ(done, 2);
    EXPECT_TRUE(first.ends_within(1s));
  }
  whole.reply->send(200, {}, "", "to nobody");
  stream.reply->write("to nobody");
  stream.reply->finish();
  whole.reply->on_gone([&] { ++gone; });
  whole.reply->on_done([&](int status, std::int64_t) { done += status == 0 ? 10 : 100; });
  EXPECT_EQ(gone, 3);
  EXPECT_EQ(done, 12);
}

TEST(HttpServer, TheDestructorDropsQueuedRequests) {
  std::promise<void> begun;
  std::promise<void> go;
  std::atomic<int> handled = 0;
  std::vector<RawClient> clients;
  std::thread release;
  {
    HttpServer server({.handler_threads = 1}, [&](const IncomingRequest&, const std::shared_ptr<Reply>&) {
      if (++handled == 1) {
        begun.set_value();
        go.get_future().wait();
      }
    });
    for (int n = 0; n < 5; ++n) {
      clients.emplace_back(server.port());
      clients.back().send(get("/"));
    }
    begun.get_future().wait();
    std::this_thread::sleep_for(50ms);
    release = std::thread([&] {
      std::this_thread::sleep_for(100ms);
      go.set_value();
    });
  }
  release.join();
  EXPECT_EQ(handled, 1);
}

}  // namespace
}  // namespace routeopd::net
