// The fixed suite of structured chats on which two models must agree, id for id, before one may teach the
// other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/text/chat_template.h"

namespace routeopd::text {

struct SuiteChat {
  std::string name;  // in words, for the report
  OrderedJson messages;
  OrderedJson options;  // of the template
};

// Chats are only added, never changed: reports are compared across versions.
const std::vector<SuiteChat>& chat_suite();

}  // namespace routeopd::text
