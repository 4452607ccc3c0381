//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace routeopd {

void fail_invariant(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "routeopd: broken invariant at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace routeopd
