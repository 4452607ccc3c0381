// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/inference/packed_matrix.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "routeopd/base/error.h"

namespace routeopd::model {
namespace {

bool fits_bfloat16(const PanelSource& source) {
  std::atomic<bool> exact = true;
  at::parallel_for(0, std::ssize(source.rows), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end && exact; ++i) {
      const float* const row = source.rows[static_cast<std::size_t>(i)];
      if (row != nullptr && !kernels::is_exact_in_bfloat16(row, source.inputs)) exact = false;
    }
  });
  return exact;
}

// What the arena must hold: panels as floats (two bfloat16 each), and the bias.
std::int64_t panel_floats(const PanelSource& source, bool bfloat16) {
  return std::ssize(source.rows) * source.inputs / (bfloat16 ? 2 : 1);
}

std::vector<bool> choose_types(const std::vector<PanelSource>& sources, WeightStorage storage) {
  std::vector<bool> bfloat16;
  for (const PanelSource& source : sources) {
    ROUTEOPD_INVARIANT(source.rows.size() % kernels::kPanelWidth == 0 && source.inputs > 0);
    bfloat16.push_back(storage == WeightStorage::kBFloat16 ||
                       (storage == WeightStorage::kExact && fits_bfloat16(source)));
  }
  return bfloat16;
}

std::int64_t arena_floats(const std::vector<PanelSource>& sources, const std::vector<bool>& bfloat16) {
  std::int64_t floats = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    floats += WeightArena::floats_of(panel_floats(sources[i], bfloat16[i]));
    floats += WeightArena::floats_of(std::ssize(sources[i].bias));
  }
  return floats;
}

}  // namespace

void PanelSource::add_rows(const at::Tensor& weight_NK, const at::Tensor& bias_N) {
  ROUTEOPD_INVARIANT(weight_NK.is_contiguous() && weight_NK.scalar_type() == at::kFloat);
  inputs = weight_NK.size(1);
  const float* const first = weight_NK.const_data_ptr<float>();
  if (bias_N.defined()) bias.resize(rows.size());  // rows before these may have none
  for (std::int64_t i = 0; i < weight_NK.size(0); ++i) rows.push_back(first + i * inputs);
  if (bias_N.defined()) {
    const float* const values = bias_N.const_data_ptr<float>();
    bias.insert(bias.end(), values, values + bias_N.numel());
  } else if (!bias.empty()) {
    bias.resize(rows.size());
  }
  outputs += weight_NK.size(0);
}

void PanelSource::fill_panel() {
  while (rows.size() % kernels::kPanelWidth != 0) rows.push_back(nullptr);
  if (!bias.empty()) bias.resize(rows.size());
}

PanelSource PanelSource::gated(const at::Tensor& gate_FK, const at::Tensor& gate_bias_F,
                               const at::Tensor& up_FK, const at::Tensor& up_bias_F,
                               kernels::Epilogue epilogue) {
  PanelSource gate, up, both;
  gate.add_rows(gate_FK, gate_bias_F);
  gate.fill_panel();
  up.add_rows(up_FK, up_bias_F);
  up.fill_panel();
  both.inputs = gate.inputs;
  both.outputs = gate_FK.size(0);
  both.epilogue = epilogue;
  const bool with_bias = !gate.bias.empty() || !up.bias.empty();
  for (std::size_t first = 0; first < gate.rows.size(); first += kernels::kPanelWidth) {
    for (const PanelSource* side : {&gate, &up}) {
      for (std::size_t i = first; i < first + kernels::kPanelWidth; ++i) {
        both.rows.push_back(side->rows[i]);
        if (with_bias) both.bias.push_back(side->bias.empty() ? 0 : side->bias[i]);
      }
    }
  }
  return both;
}

PackedMatrices::PackedMatrices(const std::vector<PanelSource>& sources, WeightStorage storage)
    : storage_(storage) {
  update(sources);
}

void PackedMatrices::allocate(const std::vector<PanelSource>& sources) {
  panels_.clear();  // first, so that the old and the new are never in memory together
  biases_.clear();
  products_.clear();
  WeightArena arena(arena_floats(sources, bfloat16_));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const PanelSource& source = sources[i];
    panels_.push_back(arena.take({panel_floats(source, bfloat16_[i])}));
    biases_.push_back(source.bias.empty() ? at::Tensor() : arena.take({std::ssize(source.bias)}));
    kernels::Product& product = products_.emplace_back();
    product.outputs = source.outputs;
    product.epilogue = source.epilogue;
    product.weight.is_bfloat16 = bfloat16_[i];
    product.weight.panel_count = std::ssize(source.rows) / kernels::kPanelWidth;
    product.weight.inputs = source.inputs;
    product.weight.panels = panels_.back().data_ptr<float>();
    if (biases_.back().defined()) product.bias_panels = biases_.back().data_ptr<float>();
  }
}

void PackedMatrices::update(const std::vector<PanelSource>& sources) {
  std::vector<bool> types = choose_types(sources, storage_);
  if (products_.empty() || types != bfloat16_) {
    bfloat16_ = std::move(types);
    allocate(sources);
  }
  ROUTEOPD_INVARIANT(products_.size() == sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const PanelSource& source = sources[i];
    const kernels::Product& product = products_[i];
    float* const panels = panels_[i].data_ptr<float>();
    ROUTEOPD_INVARIANT(product.outputs == source.outputs && product.weight.inputs == source.inputs);
    at::parallel_for(0, product.weight.panel_count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        kernels::PanelRows rows{};
        std::copy_n(source.rows.begin() + p * kernels::kPanelWidth, kernels::kPanelWidth, rows.begin());
        kernels::pack_panel(rows, product.weight, p, panels);
      }
    });
    if (biases_[i].defined()) std::copy(source.bias.begin(), source.bias.end(), biases_[i].data_ptr<float>());
  }
}

std::int64_t PackedMatrices::bytes() const {
  std::int64_t bytes = 0;
  for (const kernels::Product& product : products_) bytes += product.weight.bytes();
  return bytes;
}

void multiply(const kernels::Product& product, const at::Tensor& x_MK, at::Tensor& y_MN) {
  at::parallel_for(0, product.weight.panel_count, 1, [&](std::int64_t begin, std::int64_t end) {
    kernels::multiply_panels(product, x_MK.const_data_ptr<float>(), x_MK.size(0), x_MK.size(1), begin, end,
                             y_MN.data_ptr<float>(), y_MN.size(1));
  });
}

}  // namespace routeopd::model
