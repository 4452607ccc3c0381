// SPDX-License-Identifier: Apache-2.0
#include "routeopd/net/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <new>

#include "routeopd/base/error.h"

namespace routeopd::net {
namespace {

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

// "" where the address has no such part.
std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

using Url = std::unique_ptr<CURLU, FreeUrl>;

// Null where the text is no address.
Url parsed(const std::string& words) {
  Url url(curl_url());
  if (!url) throw std::bad_alloc();
  if (curl_url_set(url.get(), CURLUPART_URL, words.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    url.reset();
  return url;
}

}  // namespace

std::string host_of(const std::string& url) {
  const Url parts = parsed(url);
  return parts ? part_of(parts.get(), CURLUPART_HOST) : "";
}

bool is_loopback(const std::string& host) {
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (name == "localhost") return true;
  in_addr four = {};
  if (::inet_pton(AF_INET, name.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24U == 127;
  in6_addr six = {};
  return ::inet_pton(AF_INET6, name.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

Endpoint read_endpoint(const std::string& words) {
  const auto refuse = [](const char* why) {
    // The text may hold a password, so the error does not show it.
    throw UserError("endpoint: {}; expected an address such as http://127.0.0.1:8000/v1", why);
  };
  const Url url = parsed(words);
  if (!url) refuse("this is no address");
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") refuse("only http and https are spoken");
  if (!part_of(url.get(), CURLUPART_USER).empty() || !part_of(url.get(), CURLUPART_PASSWORD).empty())
    refuse("a user name or password does not belong in it");
  if (words.find_first_of("?#") != std::string::npos) refuse("a query or fragment does not belong in it");
  if (words.find(":///") != std::string::npos)
    refuse("it has no host");  // libcurl would take the path for one
  Endpoint endpoint{part_of(url.get(), CURLUPART_URL), part_of(url.get(), CURLUPART_HOST), scheme == "https",
                    false};
  if (endpoint.host.empty()) refuse("it has no host");
  endpoint.url.erase(endpoint.url.find_last_not_of('/') + 1);
  endpoint.loopback = is_loopback(endpoint.host);
  return endpoint;
}

std::string below(const Endpoint& endpoint, std::string_view path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return fmt::format("{}/{}", endpoint.url, path);
}

}  // namespace routeopd::net
