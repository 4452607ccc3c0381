// Rows of numbers in the caller's memory, in one of the types that weights and hidden states come in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace routeopd::kernels {

enum class RowType { kFloat32, kBFloat16, kFloat16 };

// Elements of 16 bits, as they lie in memory: bfloat16, the upper half of a float32, and IEEE's binary16.
struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

struct RowMatrix {
  const void* data = nullptr;
  std::int64_t width = 0;   // elements of a row
  std::int64_t stride = 0;  // elements from a row to the next
  RowType type = RowType::kFloat32;
};

constexpr std::int64_t element_bytes(RowType type) {
  return type == RowType::kFloat32 ? 4 : 2;
}

// Calls body with an element of the type, whose value says nothing.
template <class Body>
decltype(auto) with_element(RowType type, const Body& body) {
  switch (type) {
    case RowType::kBFloat16:
      return body(BFloat16{});
    case RowType::kFloat16:
      return body(Float16{});
    default:
      return body(float{});
  }
}

template <class T>
const T* row_at(const RowMatrix& matrix, std::int64_t row) {
  return static_cast<const T*>(matrix.data) + row * matrix.stride;
}

}  // namespace routeopd::kernels
