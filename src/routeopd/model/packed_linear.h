// A linear layer whose weight is laid out once for the matrix kernels of oneDNN instead of at each call. At
// 1536 x 8192 on AVX2 this makes 256 rows of input 1.1x as fast, 32 rows 1.4x (two threads: 2x) and 4 rows
// 1.7x (3x); a single row is slower than at::linear (0.8x, 0.5x). A packing costs about ten calls at 4 rows,
// so pack once an update of the weights. Inference only: no gradient flows through apply(). The bench
// measures our own product (kernels/packed_gemm.h) against it.
//
// Shapes: N outputs, K inputs, M rows of input.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace routeopd::model {

class PackedLinear {
 public:
  enum class Kernel {
    kOneDnn,  // a private packed copy of the weight; CPU, float32, or bfloat16 where the processor computes
              // in it
    kAten,    // at::linear on the caller's weight, shared, for everything else
  };

  // Falls back to at::linear when packing is not to be had. `kernel` asks for at::linear outright.
  explicit PackedLinear(const at::Tensor& weight_NK, const std::optional<at::Tensor>& bias_N = std::nullopt,
                        Kernel kernel = Kernel::kOneDnn);

  // x [..., K] of the weight's type -> [..., N] of the same type, in new memory: the packed operator cannot
  // write into a given tensor. May be called from several threads at once; inside at::parallel_for it stays
  // on its thread.
  at::Tensor apply(const at::Tensor& x_MK) const;

  Kernel kernel() const { return kernel_; }
  std::string_view kernel_name() const {
    return kernel_ == Kernel::kOneDnn ? "oneDNN, packed" : "at::linear";
  }
  std::int64_t outputs() const { return outputs_; }
  std::int64_t inputs() const { return inputs_; }

 private:
  at::Tensor weight_;  // packed and opaque (kOneDnn), or [N,K]
  std::optional<at::Tensor> bias_N_;
  Kernel kernel_;
  std::int64_t outputs_;
  std::int64_t inputs_;
};

}  // namespace routeopd::model
