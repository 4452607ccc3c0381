// A connection's life and what it reads; what it writes stands in http_answer.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/net/http_session.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/read.hpp>

namespace routeopd::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::chrono::milliseconds kPollPeriod{25};
constexpr std::chrono::milliseconds kCancelPeriod{20};
// How long, and how much, a connection that is closed is still read, so that the client gets to see the
// answer: closing a socket with unread bytes resets the connection, and takes with it what the client has
// not read.
constexpr std::chrono::milliseconds kDrainTime{2'000};
constexpr std::int64_t kDrainBytes = 128LL << 20U;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string address_text(const asio::ip::tcp::socket& socket) {
  ErrorCode error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return "?";
  const std::string address = peer.address().to_string();
  return fmt::format(fmt::runtime(peer.address().is_v6() ? "[{}]:{}" : "{}:{}"), address, peer.port());
}

// The target of a request without "http://host", which proxies send.
std::string_view origin_form(std::string_view target) {
  const auto scheme = target.find("://");
  if (target.starts_with('/') || scheme == target.npos) return target;
  const auto path = target.find('/', scheme + 3);
  return path == target.npos ? "/" : target.substr(path);
}

std::string_view plain_view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

Session::Session(Hub& hub, asio::ip::tcp::socket socket)
    : hub_(hub),
      socket_(std::move(socket)),
      client_(address_text(socket_)),
      timer_(hub.io),
      poll_timer_(hub.io),
      // A header of the longest kind, and what a socket may hand over beyond it.
      buffer_(static_cast<std::size_t>(hub.options.most_header_bytes) + (64U << 10U)) {
  ErrorCode ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void Session::start() {
  guarded([this] { next_request(); })();
}

void Session::refuse() {
  guarded([this] { fail(503, "there are too many connections: try again later"); })();
}

void Session::next_request() {
  if (hub_.stopping) return drain();
  if (buffer_.size() > 0) return read_header();
  buffer_.shrink_to_fit();
  state_ = State::kIdle;
  idle_place_ = hub_.idle.insert(hub_.idle.end(), this);
  set_deadline(SteadyClock::now() + hub_.options.idle_time);
  wait_readable();
}

void Session::leave_idle() {
  if (state_ == State::kIdle) hub_.idle.erase(idle_place_);
}

// One wait serves connections that are idle and those whose answer is pending, and goes on from one to the
// other.
void Session::wait_readable() {
  if (waiting_) return;
  waiting_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read, guarded([this](ErrorCode error) {
                       waiting_ = false;
                       if (error && error != asio::error::operation_aborted) return close();
                       if (state_ == State::kIdle) return error ? wait_readable() : read_header();
                       if (state_ == State::kAnswering && exchange_)
                         return error ? wait_readable() : check_gone();
                     }));
}

// There is something to read while an answer is pending: the end of the connection, or bytes of a next
// request. Those stay where they are, so waiting for more would return at once; the end behind them is
// looked for now and then.
void Session::check_gone() {
  pollfd query{.fd = socket_.native_handle(), .events = POLLIN | POLLRDHUP, .revents = 0};
  if (::poll(&query, 1, 0) < 0) query.revents = 0;
  if ((query.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return close();
  if ((query.revents & POLLIN) == 0) return wait_readable();
  if (polling_) return;
  polling_ = true;
  poll_timer_.expires_after(kPollPeriod);
  poll_timer_.async_wait(guarded([this](ErrorCode) {
    polling_ = false;
    if (state_ == State::kAnswering && exchange_) check_gone();
  }));
}

void Session::read_header() {
  leave_idle();
  state_ = State::kReading;
  read_failure_ = 0;
  parser_.emplace();
  parser_->get().body().share = BodyShare(hub_);
  parser_->header_limit(static_cast<std::uint32_t>(hub_.options.most_header_bytes));
  parser_->body_limit(static_cast<std::uint64_t>(hub_.options.most_body_bytes));
  set_deadline(SteadyClock::now() + hub_.options.read_time);
  http::async_read_header(socket_, buffer_, *parser_,
                          guarded([this](ErrorCode error, std::size_t) { on_header(error); }));
}

void Session::on_header(ErrorCode error) {
  if (state_ != State::kReading) return;
  if (error || read_failure_ != 0) return fail_read(error);
  const auto& header = parser_->get();
  if (header.version() != 10 && header.version() != 11) return fail(400, "expected HTTP/1.1 or HTTP/1.0");
  if (header.count(http::field::transfer_encoding) > 0 && !parser_->chunked())
    return fail(400, "Transfer-Encoding: expected chunked");
  const bool asks = header.version() == 11 &&
                    boost::beast::iequals(header[http::field::expect], "100-continue") &&
                    !parser_->is_done() && buffer_.size() == 0;
  if (!asks) return read_body();
  asio::async_write(socket_, asio::buffer(kContinue), guarded([this](ErrorCode failed, std::size_t) {
                      if (state_ != State::kReading) return;
                      if (failed || read_failure_ != 0) return fail_read(failed);
                      read_body();
                    }));
}

void Session::read_body() {
  http::async_read(socket_, buffer_, *parser_,
                   guarded([this](ErrorCode error, std::size_t) { on_body(error); }));
}

void Session::on_body(ErrorCode error) {
  if (state_ != State::kReading) return;
  if (error || read_failure_ != 0) return fail_read(error);
  dispatch();
}

void Session::fail_read(ErrorCode error) {
  if (read_failure_ == 408)
    return fail(408, fmt::format("the request did not arrive within {} s",
                                 static_cast<double>(hub_.options.read_time.count()) / 1e3));
  if (read_failure_ == 503) return fail(503, "the server is stopping");
  if (error == asio::error::no_buffer_space) return fail(503, "the server is reading too many long requests");
  if (error == http::error::body_limit)
    return fail(413, fmt::format("the body is longer than {} bytes", hub_.options.most_body_bytes));
  if (error == http::error::header_limit ||
      (error == http::error::buffer_overflow && !parser_->is_header_done()))
    return fail(431, fmt::format("the header is longer than {} bytes", hub_.options.most_header_bytes));
  const bool closed = error == http::error::end_of_stream || error == http::error::partial_message;
  if (!closed && error.category() == http::make_error_code(http::error::bad_method).category())
    return fail(400, fmt::format("expected a request in HTTP: {}", error.message()));
  close();  // the client has left
}

void Session::dispatch() {
  set_deadline(SteadyClock::time_point::max());
  auto message = parser_->release();
  parser_.reset();
  const std::string_view target = origin_form(plain_view(message.target()));
  const auto question = std::min(target.find('?'), target.size());
  IncomingRequest request{.method = std::string(plain_view(message.method_string())),
                          .path = std::string(target.substr(0, question)),
                          .query = std::string(target.substr(std::min(question + 1, target.size()))),
                          .client = client_,
                          .body = std::move(message.body().text),
                          .arrived = SteadyClock::now(),
                          .headers = {}};
  for (const auto& field : message)
    request.headers.emplace_back(plain_view(field.name_string()), plain_view(field.value()));
  share_ = std::move(message.body().share);
  version_ = message.version();
  keep_alive_ = message.keep_alive();
  head_ = message.method() == http::verb::head;
  state_ = State::kAnswering;
  stage_ = Stage::kNothing;
  chunked_ = false;
  without_body_ = false;
  exchange_ = std::make_shared<Exchange>();
  exchange_->session = this;
  wait_readable();
  run_handler(hub_, std::move(request), exchange_);
}

void Session::stop_requests() {
  if (state_ == State::kIdle) return close();
  if (state_ == State::kReading && read_failure_ == 0) give_up_reading(503);
}

// A read that is between two of its steps is not cancelled, and goes on: the deadline asks again until the
// read has returned.
void Session::give_up_reading(int status) {
  read_failure_ = status;
  ErrorCode ignored;
  socket_.cancel(ignored);
  set_deadline(SteadyClock::now() + kCancelPeriod);
}

// Bytes in the socket that the client has not taken. A socket that was full reports that it can be written
// again only when a third of its megabytes is free: a slow client takes bytes long before.
int Session::untaken_bytes() {
  int bytes = 0;
  return ::ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

// Idle connections and clients that take no bytes are closed, slow requests answered.
void Session::on_deadline() {
  if (state_ == State::kReading) return give_up_reading(read_failure_ == 0 ? 408 : read_failure_);
  if (state_ == State::kAnswering) {
    const int untaken = untaken_bytes();
    if (untaken < std::exchange(untaken_, untaken))
      return set_deadline(SteadyClock::now() + hub_.options.write_time);
  }
  if (state_ != State::kClosed) close();
}

void Session::set_deadline(SteadyClock::time_point when) {
  deadline_ = when;
  if (when == SteadyClock::time_point::max() || (timer_armed_ && timer_.expiry() <= when)) return;
  arm_timer();
}

void Session::arm_timer() {
  timer_armed_ = true;
  timer_.expires_at(deadline_);
  timer_.async_wait(guarded([this](ErrorCode error) {
    if (error || state_ == State::kClosed) return;
    timer_armed_ = false;
    if (SteadyClock::now() >= deadline_)
      on_deadline();
    else if (deadline_ != SteadyClock::time_point::max())
      arm_timer();
  }));
}

void Session::drain() {
  state_ = State::kDraining;
  ErrorCode error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error) return close();
  set_deadline(SteadyClock::now() + kDrainTime);
  drain_more(kDrainBytes);
}

void Session::drain_more(std::int64_t left) {
  socket_.async_read_some(asio::buffer(hub_.discarded),
                          guarded([this, left](ErrorCode error, std::size_t bytes) {
                            if (state_ != State::kDraining) return;
                            const std::int64_t rest = left - static_cast<std::int64_t>(bytes);
                            if (error || rest <= 0) return close();
                            drain_more(rest);
                          }));
}

void Session::close() {
  if (state_ == State::kClosed) return;
  const auto alive = shared_from_this();
  leave_idle();
  state_ = State::kClosed;
  timer_.cancel();
  poll_timer_.cancel();
  queue_.clear();
  hub_.remove(alive);  // before the client can see it
  ErrorCode ignored;
  socket_.close(ignored);
  end_exchange(true);
}

}  // namespace routeopd::net
