// The tiny checkpoints of tests/goldens/tiny, and comparisons in the goldens' own measure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "routeopd/formats/safetensors.h"
#include "routeopd/model/model_files.h"

namespace routeopd {

inline std::filesystem::path tiny(const std::string& name) {
  return std::filesystem::path(ROUTEOPD_TEST_DATA) / "goldens" / "tiny" / name;
}

inline Json tiny_json(const std::string& name) {
  std::ifstream file(tiny(name));
  return Json::parse(file);
}

// A float32 or int32 tensor of an open file, copied.
inline at::Tensor tensor_of(const formats::Safetensors& file, const std::string& name) {
  const formats::TensorView* view = file.find(name);
  if (view == nullptr) throw UserError("{}: no tensor {}", file.path().string(), name);
  const auto type = view->type == formats::TensorType::kI32 ? at::kInt : at::kFloat;
  at::Tensor tensor = at::empty(view->shape, type);
  std::copy(view->bytes.begin(), view->bytes.end(), static_cast<std::byte*>(tensor.data_ptr()));
  return tensor;
}

inline std::vector<std::int32_t> ids_of(const at::Tensor& ids) {
  const at::Tensor flat = ids.to(at::kInt).contiguous();
  return {flat.data_ptr<std::int32_t>(), flat.data_ptr<std::int32_t>() + flat.numel()};
}

// |got - expected| / |expected|, in the Euclidean norm.
inline double relative_error(const at::Tensor& got, const at::Tensor& expected) {
  return ((got - expected).to(at::kDouble).norm() / expected.to(at::kDouble).norm()).item<double>();
}

}  // namespace routeopd
