// Errors as OpenAI's servers answer them: {"error": {"message", "type", "param", "code"}}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd::serve {

// A request that is answered with a status other than 200.
class ApiError : public UserError {
 public:
  // `param`: the parameter that is wrong, or empty.
  ApiError(int status, const std::string& message, std::string param = {})
      : UserError(message), status_(status), param_(std::move(param)) {}

  int status() const { return status_; }
  const std::string& param() const { return param_; }

 private:
  int status_;
  std::string param_;
};

// {"error": …}. `message` may hold what a client sent: bytes that are not UTF-8 are replaced.
std::string error_body(int status, std::string_view message, std::string_view param = {});

}  // namespace routeopd::serve
