// The error that a piece of work ends with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "routeopd/base/error.h"

namespace routeopd {

// The message of the UserError that `work` throws, "" if it throws none. Another exception fails the test.
template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace routeopd
