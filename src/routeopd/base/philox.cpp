//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/philox.h"

#include "routeopd/base/error.h"

namespace routeopd {

void check_address(const StateAddress& address) {
  if (address.prompt >= 1U << 24) {
    throw UserError(
        "random address: prompt {} is past the last addressable one, {}; split the prompts over runs",
        address.prompt, (1U << 24) - 1);
  }
  if (address.response >= 1U << 8) {
    throw UserError(
        "random address: response {} is past the last addressable one, 255; ask for fewer responses a prompt",
        address.response);
  }
}

}  // namespace routeopd
