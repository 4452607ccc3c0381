// libFuzzer: any bytes as a safetensors file. What is accepted must lie inside the file, without overlap, and
// cover it.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <span>

#include "routeopd/base/error.h"
#include "routeopd/formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const routeopd::formats::SafetensorsIndex index = routeopd::formats::read_safetensors(file);
    const std::byte* next = nullptr;
    std::uint64_t sum = 0;
    for (const routeopd::formats::TensorView& tensor : index.tensors) {
      std::uint64_t elements = 1;
      for (const std::int64_t dimension : tensor.shape) elements *= static_cast<std::uint64_t>(dimension);
      if (elements * routeopd::formats::size_of(tensor.type) != tensor.bytes.size()) std::abort();
      if (next != nullptr && tensor.bytes.data() != next) std::abort();
      for (const std::byte byte : tensor.bytes)
        sum += static_cast<std::uint64_t>(byte);  // all of it can be read
      next = tensor.bytes.data() + tensor.bytes.size();
    }
    if (next != nullptr && next != file.data() + file.size()) std::abort();
    volatile const std::uint64_t kept = sum;
    (void)kept;
  } catch (const routeopd::UserError&) {
  }
  return 0;
}
