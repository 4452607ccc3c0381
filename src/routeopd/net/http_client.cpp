// SPDX-License-Identifier: Apache-2.0
#include "routeopd/net/http_client.h"

#include <curl/curl.h>

#include <array>
#include <limits>
#include <mutex>
#include <new>

#include "routeopd/base/display.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/net/url.h"

namespace routeopd::net {
namespace {

constexpr int kInterruptPeriodMs = 100;
constexpr std::int64_t kMostHeaderBytes = 256 << 10U;

// What has arrived so far, and its limit. libcurl delivers at most 16 kB of body or one header line per call.
struct Receiver {
  std::int64_t most_body = 0;
  std::string body = {};
  std::int64_t header_bytes = 0;
  bool too_large = false;
};

// Returning fewer bytes than were offered tells libcurl to end the transfer.
std::size_t take_body(char* data, std::size_t, std::size_t bytes, void* receiver_pointer) {
  auto& receiver = *static_cast<Receiver*>(receiver_pointer);
  if (static_cast<std::int64_t>(receiver.body.size() + bytes) > receiver.most_body) {
    receiver.too_large = true;
    return 0;
  }
  receiver.body.append(data, bytes);
  return bytes;
}

std::size_t take_header(char*, std::size_t, std::size_t bytes, void* receiver_pointer) {
  auto& receiver = *static_cast<Receiver*>(receiver_pointer);
  receiver.header_bytes += static_cast<std::int64_t>(bytes);
  receiver.too_large |= receiver.header_bytes > kMostHeaderBytes;
  return receiver.too_large ? 0 : bytes;
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

void append(HeaderList& list, const std::string& header) {
  curl_slist* shorter = list.release();
  curl_slist* longer = curl_slist_append(shorter, header.c_str());
  list.reset(longer == nullptr ? shorter : longer);
  if (longer == nullptr) throw std::bad_alloc();
}

template <class Value>
void set(CURL* easy, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  if (code != CURLE_OK) throw UserError("libcurl cannot be set up: {}", curl_easy_strerror(code));
}

HttpFailure::Kind kind_of(CURLcode code, const Receiver& receiver) {
  using Kind = HttpFailure::Kind;
  if (receiver.too_large || code == CURLE_FILESIZE_EXCEEDED) return Kind::kTooLarge;
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return Kind::kTimeout;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // an answer in HTTP/0.9, which could be any bytes
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return Kind::kCut;
    default:
      return Kind::kConnect;
  }
}

// Keeps an easy handle in a multi handle; removing it, also by an exception, ends its transfer.
class Running {
 public:
  Running(CURLM* multi, CURL* easy) : multi_(multi), easy_(easy) {
    if (curl_multi_add_handle(multi_, easy_) != CURLM_OK) throw UserError("libcurl refuses the request");
  }
  ~Running() { curl_multi_remove_handle(multi_, easy_); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  CURLM* multi_;
  CURL* easy_;
};

// Runs the transfer to its end. The multi interface allows short waits: curl_easy_perform would check for a
// signal only once per second.
CURLcode run(CURLM* multi, CURL* easy, const HttpRequest& request) {
  const Running running(multi, easy);
  for (int unfinished = 1; unfinished > 0;) {
    check_interrupt();
    if (request.cancelled != nullptr && *request.cancelled)
      throw HttpFailure(HttpFailure::Kind::kCancelled, request.url + ": cancelled");
    if (curl_multi_perform(multi, &unfinished) != CURLM_OK) return CURLE_FAILED_INIT;
    if (unfinished > 0) curl_multi_poll(multi, nullptr, 0, kInterruptPeriodMs, nullptr);
  }
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi, &left);
  return message == nullptr ? CURLE_FAILED_INIT : message->data.result;
}

}  // namespace

struct HttpClient::Handles {
  struct FreeEasy {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  struct FreeMulti {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };
  std::unique_ptr<CURLM, FreeMulti> multi;  // outlives `easy`
  std::unique_ptr<CURL, FreeEasy> easy;
};

HttpClient::HttpClient() : handles_(std::make_unique<Handles>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  handles_->multi.reset(curl_multi_init());
  handles_->easy.reset(curl_easy_init());
  if (!handles_->multi || !handles_->easy) throw std::bad_alloc();
}

HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::post(const HttpRequest& request) {
  return exchange(request, /*post=*/true);
}

HttpAnswer HttpClient::get(const HttpRequest& request) {
  return exchange(request, /*post=*/false);
}

HttpAnswer HttpClient::exchange(const HttpRequest& request, bool post) {
  CURL* easy = handles_->easy.get();
  curl_easy_reset(easy);  // settings only; the connection stays open
  Receiver receiver{.most_body = request.limits.body_bytes};
  std::array<char, CURL_ERROR_SIZE> reason = {};
  HeaderList headers;
  if (post) append(headers, fmt::format("Content-Type: {}", request.type));
  append(headers, fmt::format("Accept: {}", request.type));
  append(headers, "Expect:");  // do not wait for leave to send a long body
  for (const std::string& header : request.headers) append(headers, header);

  set(easy, CURLOPT_URL, request.url.c_str());
  set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy, CURLOPT_NOSIGNAL, 1L);  // several threads; writes to sockets raise no SIGPIPE either way
  set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy, CURLOPT_USERAGENT, "routeopd");
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.limits.connect.count()));
  set(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.limits.total.count()));
  if (is_loopback(host_of(request.url))) set(easy, CURLOPT_PROXY, "");
  set(easy, CURLOPT_HTTPHEADER, headers.get());
  if (post) {
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(easy, CURLOPT_POSTFIELDS, request.body.c_str());
  }
  set(easy, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(request.limits.body_bytes));
  set(easy, CURLOPT_WRITEFUNCTION, &take_body);
  set(easy, CURLOPT_WRITEDATA, static_cast<void*>(&receiver));
  set(easy, CURLOPT_HEADERFUNCTION, &take_header);
  set(easy, CURLOPT_HEADERDATA, static_cast<void*>(&receiver));
  set(easy, CURLOPT_ERRORBUFFER, reason.data());

  const CURLcode code = run(handles_->multi.get(), easy, request);
  if (code != CURLE_OK) {
    const HttpFailure::Kind kind = kind_of(code, receiver);
    throw HttpFailure(
        kind, kind == HttpFailure::Kind::kTooLarge
                  ? fmt::format("{}: the answer is longer than {}", request.url,
                                byte_text(request.limits.body_bytes))
                  : fmt::format("{}: {}", request.url, reason[0] ? reason.data() : curl_easy_strerror(code)));
  }
  HttpAnswer answer{.status = 0, .body = std::move(receiver.body), .retry_after = {}};
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  curl_off_t seconds = 0;  // 0 where there is no such header
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  if (seconds > 0) answer.retry_after = static_cast<double>(seconds);
  return answer;
}

}  // namespace routeopd::net
