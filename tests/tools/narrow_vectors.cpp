// LD_PRELOAD of this library lets the kernels see an older processor: ROUTEOPD_TEST_TARGET names an
// instruction set as Highway does (SSSE3, SSE4, AVX2, AVX3), and all better ones are taken away. Where the
// machine lacks it, exit code 77.
// SPDX-License-Identifier: Apache-2.0
#include <hwy/targets.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// The lowest bit is the best target.
[[gnu::constructor]] void narrow() {
  const char* const wanted = std::getenv("ROUTEOPD_TEST_TARGET");
  if (wanted == nullptr) return;
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    if (std::strcmp(hwy::TargetName(target), wanted) == 0) return hwy::DisableTargets(target - 1);
  }
  std::_Exit(77);
}

}  // namespace
