// The Reply through which other threads answer, and the thread of a handler.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "routeopd/net/http_session.h"

namespace routeopd::net {
namespace {

class GatedReply : public Reply {
 public:
  GatedReply(std::shared_ptr<Gate> gate, std::shared_ptr<Exchange> exchange)
      : gate_(std::move(gate)), exchange_(std::move(exchange)) {}

  ~GatedReply() override {
    try {
      abandon();
    } catch (...) {  // no memory for a message: the client waits until it gives up
    }
  }

  void abandon() {
    with_session([](Session& session) { session.abandon(); });
  }

  void send(int status, Headers headers, std::string content_type, std::string body) override {
    with_session([status, headers = std::move(headers), content_type = std::move(content_type),
                  body = std::move(body)](Session& session) mutable {
      session.send(status, headers, content_type, std::move(body));
    });
  }

  void begin(int status, Headers headers, std::string content_type) override {
    with_session([status, headers = std::move(headers), content_type = std::move(content_type)](
                     Session& session) { session.begin(status, headers, content_type); });
  }

  void write(std::string piece) override {
    with_session([piece = std::move(piece)](Session& session) mutable { session.write(std::move(piece)); });
  }

  void finish() override {
    with_session([](Session& session) { session.finish(); });
  }

  void drop() override {
    with_session([](Session& session) { session.drop(); });
  }

  void on_gone(std::function<void()> call) override {
    auto work = [exchange = exchange_, call]() {
      if (exchange->session != nullptr)
        exchange->on_gone = call;
      else if (exchange->gone)
        call();
    };
    if (!gate_->post(work)) work();
  }

  void on_done(std::function<void(int, std::int64_t)> call) override {
    auto work = [exchange = exchange_, call]() {
      if (exchange->session != nullptr)
        exchange->on_done = call;
      else
        call(exchange->status, exchange->bytes);
    };
    if (!gate_->post(work)) work();
  }

 private:
  template <class Call>
  void with_session(Call call) {
    auto work = [exchange = exchange_, call = std::move(call)]() mutable {
      if (exchange->session == nullptr) return;
      exchange->session->perform(call);
    };
    gate_->post(work);
  }

  std::shared_ptr<Gate> gate_;
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace

void run_handler(Hub& hub, IncomingRequest request, const std::shared_ptr<Exchange>& exchange) {
  auto reply = std::make_shared<GatedReply>(hub.gate, exchange);
  boost::asio::post(hub.pool, [&hub, request = std::move(request), reply = std::move(reply)]() mutable {
    const std::string what = fmt::format("{} {}", request.method, request.path);
    try {
      hub.handler(std::move(request), reply);
      return;
    } catch (const std::exception& error) {
      hub.log(fmt::format("{}: {}", what, error.what()));
    } catch (...) {
      hub.log(fmt::format("{}: an unknown exception", what));
    }
    reply->abandon();
  });
}

}  // namespace routeopd::net
