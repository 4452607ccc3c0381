// Weights of a model laid out for kernels/packed_gemm.h, all of them in one stretch of memory.
//
// Shapes: N outputs, K inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "routeopd/kernels/packed_gemm.h"
#include "routeopd/model/weight_arena.h"

namespace routeopd::model {

enum class WeightStorage {
  kFloat32,
  kBFloat16,  // rounded to nearest: half the traffic, and another model unless the weights came from it
  kExact,     // bfloat16 where that loses nothing, float32 elsewhere
};

// A matrix to be laid out: the rows [K] of its panels, null for zeros, and their bias.
struct PanelSource {
  std::vector<const float*> rows;  // a multiple of 16
  std::vector<float> bias;         // as many, or none
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  kernels::Epilogue epilogue = kernels::Epilogue::kStore;

  // The rows of weight_NK, whose bias may be undefined; call again for rows that follow them.
  void add_rows(const at::Tensor& weight_NK, const at::Tensor& bias_N);
  void fill_panel();  // with zeros, up to a multiple of 16

  // Rows of gate and up in turns, 16 of each, for a gated epilogue.
  static PanelSource gated(const at::Tensor& gate_FK, const at::Tensor& gate_bias_F, const at::Tensor& up_FK,
                           const at::Tensor& up_bias_F,
                           kernels::Epilogue epilogue = kernels::Epilogue::kGatedSilu);
};

// Lays out matrices, in several threads. The products point into memory that this object owns.
class PackedMatrices {
 public:
  PackedMatrices(const std::vector<PanelSource>& sources, WeightStorage storage);

  // The same matrices with other values, in the same memory where their types allow it: fresh memory would
  // cost as much as laying them out. Products handed out before become invalid.
  void update(const std::vector<PanelSource>& sources);

  const kernels::Product& operator[](std::size_t i) const { return products_[i]; }
  std::int64_t bytes() const;

 private:
  void allocate(const std::vector<PanelSource>& sources);

  WeightStorage storage_;
  std::vector<bool> bfloat16_;  // of each matrix
  std::vector<at::Tensor> panels_, biases_;
  std::vector<kernels::Product> products_;
};

// y_MN = x_MK W^T, with panels dealt to threads.
void multiply(const kernels::Product& product, const at::Tensor& x_MK, at::Tensor& y_MN);

}  // namespace routeopd::model
