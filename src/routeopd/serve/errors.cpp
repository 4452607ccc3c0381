// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/errors.h"

#include "routeopd/serve/answer_json.h"

namespace routeopd::serve {
namespace {

// In the words of vLLM and of OpenAI's client libraries.
std::string_view error_type(int status) {
  switch (status) {
    case 400:
      return "BadRequestError";
    case 401:
      return "AuthenticationError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 408:
      return "RequestTimeoutError";
    case 413:
      return "RequestTooLargeError";
    case 429:
      return "RateLimitError";
    case 503:
      return "ServiceUnavailableError";
    case 504:
      return "GatewayTimeoutError";
    default:
      return status < 500 ? "BadRequestError" : "InternalServerError";
  }
}

}  // namespace

std::string error_body(int status, std::string_view message, std::string_view param) {
  constexpr std::size_t kLongest = 1000;  // bytes: a message may repeat what a client sent
  std::string text(message.substr(0, kLongest));
  if (message.size() > kLongest) text += " …";
  param = param.substr(0, kLongest);
  return json_text({{"error",
                     {{"message", text},
                      {"type", error_type(status)},
                      {"param", param.empty() ? OrderedJson() : OrderedJson(param)},
                      {"code", status}}}});
}

}  // namespace routeopd::serve
