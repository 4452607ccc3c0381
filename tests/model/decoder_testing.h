// What the tests of the decoder share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>

#include "routeopd/model/decoder.h"

namespace routeopd::model {

constexpr double kTolerance = 1e-4;  // of a float32 log-probability

// A checkpoint of make_architecture_goldens.py.
inline std::filesystem::path architecture_directory(const std::string& name) {
  return std::filesystem::path(ROUTEOPD_TEST_DATA) / "goldens" / "architectures" / name;
}

inline at::Tensor logprobs_of(const Model& model, const at::Tensor& hidden) {
  return at::log_softmax(at::linear(hidden, model.head_VH), -1);
}

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace routeopd::model
