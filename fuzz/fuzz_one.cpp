// What libFuzzer calls: the target, held to two seconds of the processor's time an input, instrumented as
// this is. libFuzzer's own limit would also count the time that other processes had the processor.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

extern "C" int ROUTEOPD_FUZZ_TARGET(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::clock_t start = std::clock();
  const int result = ROUTEOPD_FUZZ_TARGET(data, size);
  if (std::clock() - start > 2 * CLOCKS_PER_SEC) {
    std::fputs("fuzz: the input took more than 2 s\n", stderr);
    std::abort();
  }
  return result;
}
