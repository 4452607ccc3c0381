// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <vector>

namespace routeopd::python {
namespace {

std::string shape_of(const Tensor& tensor) {
  std::string text = "[";
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.size(i));
  return text + "]";
}

void check_plain(const Tensor& tensor, const char* name, ScalarType type, const char* type_name,
                 const std::vector<std::int64_t>& shape) {
  if (!tensor.is_cpu()) throw UserError("{}: expected a tensor on the CPU", name);
  if (tensor.scalar_type() != type) throw UserError("{}: expected {}", name, type_name);
  bool fits = tensor.dim() == static_cast<std::int64_t>(shape.size());
  std::string expected = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    fits = fits && tensor.size(static_cast<std::int64_t>(i)) == shape[i];
    expected += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  if (!fits) throw UserError("{}: expected shape {}], got {}", name, expected, shape_of(tensor));
  if (!tensor.is_contiguous()) throw UserError("{}: expected a contiguous tensor", name);
}

Tensor empty_of(std::initializer_list<std::int64_t> shape, ScalarType type) {
  return torch::stable::empty({shape.begin(), shape.size()}, type, std::nullopt,
                              torch::stable::Device(torch::headeronly::DeviceType::CPU));
}

}  // namespace

kernels::RowMatrix row_matrix(const Tensor& tensor, const char* name) {
  if (!tensor.is_cpu()) throw UserError("{}: expected a tensor on the CPU", name);
  if (tensor.dim() != 2) throw UserError("{}: expected a matrix, got shape {}", name, shape_of(tensor));
  if (tensor.size(1) > 1 && tensor.stride(1) != 1)
    throw UserError("{}: expected rows without gaps, got a stride of {}", name, tensor.stride(1));
  kernels::RowMatrix rows{
      .data = tensor.const_data_ptr(), .width = tensor.size(1), .stride = tensor.stride(0)};
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      rows.type = kernels::RowType::kFloat32;
      return rows;
    case ScalarType::BFloat16:
      rows.type = kernels::RowType::kBFloat16;
      return rows;
    case ScalarType::Half:
      rows.type = kernels::RowType::kFloat16;
      return rows;
    default:
      throw UserError("{}: expected float32, bfloat16 or float16", name);
  }
}

const std::int32_t* int32_data(const Tensor& tensor, const char* name, std::int64_t rows,
                               std::int64_t columns) {
  static constexpr std::int32_t kNothing = -1;  // an empty tensor has no memory; null would mean something
  check_plain(tensor, name, ScalarType::Int, "int32", {rows, columns});
  const auto* const data = static_cast<const std::int32_t*>(tensor.const_data_ptr());
  return data == nullptr ? &kNothing : data;
}

const float* float_data(const Tensor& tensor, const char* name, std::int64_t rows, std::int64_t columns) {
  check_plain(tensor, name, ScalarType::Float, "float32", {rows, columns});
  return static_cast<const float*>(tensor.const_data_ptr());
}

const float* float_data(const Tensor& tensor, const char* name, std::int64_t rows) {
  check_plain(tensor, name, ScalarType::Float, "float32", {rows});
  return static_cast<const float*>(tensor.const_data_ptr());
}

const float* float_data_or_null(const std::optional<Tensor>& tensor, const char* name, std::int64_t rows) {
  static constexpr float kNothing = 0;
  if (!tensor) return nullptr;
  const float* const data = float_data(*tensor, name, rows);
  return rows == 0 ? &kNothing : data;
}

Tensor empty_floats(std::initializer_list<std::int64_t> shape) {
  return empty_of(shape, ScalarType::Float);
}

Tensor empty_ints(std::initializer_list<std::int64_t> shape) {
  return empty_of(shape, ScalarType::Int);
}

Tensor empty_bytes(std::int64_t count) {
  return empty_of({count}, ScalarType::Byte);
}

kernels::ParallelFor torch_threads() {
  return {.threads = static_cast<int>(torch::stable::get_num_threads()),
          .run = [](std::int64_t begin, std::int64_t end, std::int64_t grain,
                    const kernels::ParallelFor::Work& work) {
            if (begin < end) torch::stable::parallel_for(begin, end, grain, work);
          }};
}

}  // namespace routeopd::python
