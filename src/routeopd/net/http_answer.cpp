// Answers: their bytes, and the order in which a connection writes them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/serializer.hpp>
#include <ctime>

#include "routeopd/net/http_session.h"

namespace routeopd::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

// More than that waiting for a client that does not read: it is gone.
constexpr std::int64_t kMostWaitingBytes = 64LL << 20U;
constexpr std::size_t kBuffersPerWrite = 16;

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<std::size_t>(parts.tm_wday)],
                     parts.tm_mday, kMonths[static_cast<std::size_t>(parts.tm_mon)], 1900 + parts.tm_year,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// A header must not end its line, or whoever chose the value could write the rest of the answer. Lengths and
// connections are the server's own business.
bool may_send(const std::string& name, const std::string& value) {
  const auto is_control = [](char letter) {
    return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
  };
  if (name.empty() || std::ranges::any_of(name, is_control) || std::ranges::any_of(value, is_control) ||
      name.find_first_of(" :") != name.npos)
    return false;
  return std::ranges::none_of(std::array{"Content-Length", "Transfer-Encoding", "Connection"},
                              [&](const char* own) { return boost::beast::iequals(name, own); });
}

template <class Call, class... Values>
void call_safely(const Hub& hub, const Call& call, Values... values) {
  if (!call) return;
  try {
    call(values...);
  } catch (const std::exception& error) {
    hub.log(fmt::format("the end of an answer: {}", error.what()));
  } catch (...) {
    hub.log("the end of an answer: an unknown exception");
  }
}

}  // namespace

std::string Session::header_text(int status, const Headers& headers, const std::string& content_type,
                                 std::optional<std::size_t> length) {
  http::response<http::empty_body> answer;
  answer.version(version_);
  answer.result(static_cast<unsigned>(status));
  answer.set(http::field::date, http_date());
  if (!content_type.empty() && may_send("Content-Type", content_type))
    answer.set(http::field::content_type, content_type);
  for (const auto& [name, value] : headers) {
    if (may_send(name, value))
      answer.insert(name, value);
    else
      hub_.log(fmt::format("an answer to {} goes out without a header that is not to be sent", client_));
  }
  answer.keep_alive(keep_alive_);
  if (length) answer.content_length(*length);
  if (chunked_) answer.chunked(true);
  http::serializer<false, http::empty_body> serializer(answer);
  serializer.split(true);
  std::string text;
  ErrorCode error;
  serializer.next(error, [&](ErrorCode& failed, const auto& buffers) {
    failed = {};
    text = boost::beast::buffers_to_string(buffers);
  });
  return text;
}

void Session::send(int status, const Headers& headers, const std::string& content_type, std::string body) {
  if (state_ != State::kAnswering || stage_ != Stage::kNothing) return;
  if (status < 200 || status > 599) {
    hub_.log(fmt::format("an answer has status {}, expected 200 to 599", status));
    status = 500;
  }
  stage_ = Stage::kWhole;
  keep_alive_ = keep_alive_ && !hub_.stopping;
  chunked_ = false;
  if (exchange_) exchange_->status = status;
  const bool no_length = status == 204 || status == 304;
  push(header_text(status, headers, content_type, no_length ? std::nullopt : std::optional(body.size())));
  if (!head_ && !no_length && !body.empty()) push(std::move(body));
  pump();
}

// A client of HTTP/1.0 knows no chunks: for it the end of the connection ends the answer.
void Session::begin(int status, const Headers& headers, const std::string& content_type) {
  if (state_ != State::kAnswering || stage_ != Stage::kNothing) return;
  if (status < 200 || status > 599 || status == 204 || status == 304) {
    hub_.log(fmt::format("an answer in pieces has status {}, expected one with a body", status));
    status = 500;
  }
  stage_ = Stage::kStreaming;
  chunked_ = version_ == 11;
  keep_alive_ = keep_alive_ && chunked_ && !hub_.stopping;
  without_body_ = head_;
  if (exchange_) exchange_->status = status;
  push(header_text(status, headers, content_type, std::nullopt));
  pump();
}

void Session::write(std::string piece) {
  if (state_ != State::kAnswering || stage_ != Stage::kStreaming || without_body_) return;
  if (piece.empty()) return;  // an empty chunk would end the answer
  if (queued_bytes_ > kMostWaitingBytes) {
    hub_.log(fmt::format("{} does not read its answer: the connection is closed", client_));
    return close();
  }
  push(chunked_ ? boost::beast::buffers_to_string(http::make_chunk(asio::buffer(piece))) : std::move(piece));
  pump();
}

void Session::finish() {
  if (state_ != State::kAnswering || stage_ != Stage::kStreaming) return;
  stage_ = Stage::kWhole;
  if (chunked_ && !without_body_) push(boost::beast::buffers_to_string(http::make_chunk_last()));
  pump();
}

void Session::drop() {
  if (state_ != State::kAnswering || stage_ == Stage::kWhole) return;
  stage_ = Stage::kCut;
  pump();
}

void Session::abandon() {
  if (state_ != State::kAnswering) return;
  if (stage_ == Stage::kStreaming) return drop();
  if (stage_ != Stage::kNothing) return;
  send(500, {}, hub_.options.error_type, hub_.error_body(500, "the server failed to answer this request"));
}

// An answer of the server's own, after which the connection closes: what follows the request is not known,
// or not wanted.
void Session::fail(int status, std::string_view message) {
  if (parser_ && parser_->is_header_done()) {
    version_ = parser_->get().version() == 10 ? 10 : 11;
    head_ = parser_->get().method() == http::verb::head;
  } else {
    version_ = 11;
    head_ = false;
  }
  parser_.reset();
  state_ = State::kAnswering;
  stage_ = Stage::kNothing;
  keep_alive_ = false;
  send(status, hub_.own_answer(status, client_), hub_.options.error_type, hub_.error_body(status, message));
}

void Session::push(std::string bytes) {
  queued_bytes_ += static_cast<std::int64_t>(bytes.size());
  queue_.push_back(std::move(bytes));
}

// Writes what waits, or ends the answer where nothing will follow. Pieces that gathered during a write go out
// together in the next.
void Session::pump() {
  if (writing_) return;
  if (queue_.empty()) {
    set_deadline(SteadyClock::time_point::max());
    if (stage_ == Stage::kWhole)
      answered();
    else if (stage_ == Stage::kCut)
      cut();
    return;
  }
  std::array<asio::const_buffer, kBuffersPerWrite> buffers;
  const std::size_t count = std::min(queue_.size(), buffers.size());
  for (std::size_t n = 0; n < count; ++n) buffers[n] = asio::buffer(queue_[n]);
  buffers[0] += front_sent_;
  writing_ = true;
  set_deadline(SteadyClock::now() + hub_.options.write_time);
  socket_.async_write_some(buffers,
                           guarded([this](ErrorCode error, std::size_t bytes) { on_written(error, bytes); }));
  untaken_ = untaken_bytes();
}

void Session::on_written(ErrorCode error, std::size_t bytes) {
  writing_ = false;
  if (state_ != State::kAnswering) return;
  if (exchange_) exchange_->bytes += static_cast<std::int64_t>(bytes);
  if (error) return close();
  queued_bytes_ -= static_cast<std::int64_t>(bytes);
  bytes += front_sent_;
  while (!queue_.empty() && bytes >= queue_.front().size()) {
    bytes -= queue_.front().size();
    queue_.pop_front();
  }
  front_sent_ = bytes;
  pump();
}

void Session::answered() {
  stage_ = Stage::kNothing;
  end_exchange(false);
  if (keep_alive_)
    next_request();
  else
    drain();
}

// Without chunks an orderly end would look like the end of the answer: the connection is reset.
void Session::cut() {
  ErrorCode ignored;
  if (!chunked_) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  end_exchange(false);
  close();
}

void Session::end_exchange(bool gone) {
  if (!exchange_) return;
  share_ = {};
  const auto exchange = std::move(exchange_);
  exchange_.reset();
  exchange->session = nullptr;
  exchange->gone = gone;
  // Taken out first: what they hold may be the reply itself.
  const auto on_gone = std::move(exchange->on_gone);
  const auto on_done = std::move(exchange->on_done);
  exchange->on_gone = nullptr;
  exchange->on_done = nullptr;
  if (gone) call_safely(hub_, on_gone);
  call_safely(hub_, on_done, exchange->status, exchange->bytes);
}

}  // namespace routeopd::net
