// Tensors of LibTorch's stable ABI as the kernels see them: plain memory with a shape that was checked.
//
// No header of ATen is included anywhere in this folder, and no function of libtorch is called but the C
// functions behind torch/csrc/stable: one binary serves every torch from 2.10 on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/kernels/head_rows.h"
#include "routeopd/kernels/parallel_for.h"

namespace routeopd::python {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// torch hands a C++ exception on as RuntimeError. Those of ours begin with this; Python raises them as
// ValueError, without it.
inline constexpr const char* kErrorMark = "routeopd: ";

// The operator `function` for TORCH_BOX, its UserErrors marked.
template <auto function>
struct Marked;

template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct Marked<function> {
  static Result call(Arguments... arguments) {
    try {
      return function(arguments...);
    } catch (const UserError& error) {
      throw std::runtime_error(std::string(kErrorMark) + error.what());
    }
  }
};

// A CPU matrix in float32, bfloat16 or float16 whose rows have no gaps inside. `name` is for the message.
kernels::RowMatrix row_matrix(const Tensor& tensor, const char* name);

// Memory of a contiguous CPU tensor of this type and shape; throws UserError for any other.
const std::int32_t* int32_data(const Tensor& tensor, const char* name, std::int64_t rows,
                               std::int64_t columns);
const float* float_data(const Tensor& tensor, const char* name, std::int64_t rows, std::int64_t columns);
const float* float_data(const Tensor& tensor, const char* name, std::int64_t rows);
// Null where there is no tensor, and only there.
const float* float_data_or_null(const std::optional<Tensor>& tensor, const char* name, std::int64_t rows);

// New tensors on the CPU.
Tensor empty_floats(std::initializer_list<std::int64_t> shape);
Tensor empty_ints(std::initializer_list<std::int64_t> shape);  // int32
Tensor empty_bytes(std::int64_t count);                        // uint8

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// torch's threads, as many as torch.set_num_threads() allows.
kernels::ParallelFor torch_threads();

}  // namespace routeopd::python
