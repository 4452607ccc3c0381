// HeadGradient: sparse row-wise accumulation into a dense buffer. Visits are sorted by row (stable, so that a
// row's sum has one order), and threads take whole rows, cut where the number of visits is even.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/head_common.h"

namespace routeopd::model {

namespace {

constexpr std::int64_t kVisitGrain = 128;  // visits of 1,536 columns take about 50 microseconds
constexpr std::int64_t kClearGrain = 128;  // rows

constexpr int kMaxDigitBits = 11;
constexpr int kMaxDigits = 3;  // 3 * 11 bits hold any row number

}  // namespace

HeadGradient::HeadGradient(at::Tensor grad_VH) : grad_VH_(std::move(grad_VH)) {
  if (!grad_VH_.defined() || grad_VH_.dim() != 2 || !grad_VH_.is_contiguous() ||
      (grad_VH_.scalar_type() != at::kFloat && grad_VH_.scalar_type() != at::kDouble)) {
    throw UserError("head gradient: expected a contiguous float32 or float64 matrix");
  }
  is_touched_.resize(static_cast<std::size_t>(grad_VH_.size(0)), 0);
}

void HeadGradient::add_visits(const at::Tensor& hidden_TH, std::span<const kernels::RowVisit> visits,
                              Backend backend) {
  check_head_inputs("head gradient", hidden_TH, grad_VH_);
  const bool highway = use_highway("head gradient", backend, hidden_TH, grad_VH_);
  const std::int64_t tokens = hidden_TH.size(0);
  const std::int64_t rows = grad_VH_.size(0);
  for (const kernels::RowVisit& visit : visits) {
    if (visit.row >= rows || visit.token < 0 || visit.token >= tokens) {
      throw UserError("head gradient: a visit names row {} of {} and token {} of {}", visit.row, rows,
                      visit.token, tokens);
    }
  }
  sort_by_row(visits);
  mark_touched();
  const std::int64_t count = std::ssize(sorted_);
  if (count == 0) return;
  if (!highway) {
    const at::NoGradGuard no_grad;
    add_visits_with_aten(VisitDirection::kToRows, hidden_TH, sorted_, grad_VH_);
    return;
  }

  const kernels::RowMatrix hidden = row_matrix(hidden_TH);
  float* const grad = grad_VH_.mutable_data_ptr<float>();
  at::parallel_for(0, count, kVisitGrain, [&](std::int64_t begin, std::int64_t end) {
    // The runs that begin in [begin, end) are this thread's.
    auto run = std::lower_bound(run_starts_.begin(), run_starts_.end(), begin);
    for (; *run < end; ++run) {
      const kernels::RowVisit* const first = sorted_.data() + *run;
      const std::int64_t length = run[1] - run[0];
      const bool overwrite = run_overwrites_[static_cast<std::size_t>(run - run_starts_.begin())] != 0;
      kernels::add_hidden_rows(hidden, first, length, count - run[1], overwrite,
                               grad + first->row * hidden.width);
    }
    kernels::flush_row_writes();
  });
}

// Least-significant-digit radix sort of the visits into sorted_, without those that have no row.
void HeadGradient::sort_by_row(std::span<const kernels::RowVisit> visits) {
  const int bits = std::max(1, static_cast<int>(std::bit_width(is_touched_.size() - 1)));
  const int digits = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  const int digit_bits = (bits + digits - 1) / digits;
  const std::uint32_t mask = (1U << digit_bits) - 1;
  std::array<std::array<std::size_t, 1 << kMaxDigitBits>, kMaxDigits> position{};
  std::size_t count = 0;
  for (const kernels::RowVisit& visit : visits) {
    if (visit.row < 0) continue;
    ++count;
    for (int digit = 0; digit < digits; ++digit) {
      ++position[digit][(static_cast<std::uint32_t>(visit.row) >> (digit * digit_bits)) & mask];
    }
  }
  sorted_.resize(count);
  unsorted_.resize(count);
  for (int digit = 0; digit < digits; ++digit) {
    std::size_t total = 0;
    for (std::size_t& entry : position[digit]) total += std::exchange(entry, total);
    const std::span<const kernels::RowVisit> from =
        digit == 0 ? visits : std::span<const kernels::RowVisit>(unsorted_);
    for (const kernels::RowVisit& visit : from) {
      if (visit.row < 0) continue;
      sorted_[position[digit][(static_cast<std::uint32_t>(visit.row) >> (digit * digit_bits)) & mask]++] =
          visit;
    }
    if (digit + 1 < digits) std::swap(sorted_, unsorted_);
  }
}

// Cuts sorted_ into runs of one row and marks their rows.
void HeadGradient::mark_touched() {
  run_starts_.clear();
  run_overwrites_.clear();
  std::int32_t last = -1;
  for (std::int64_t at = 0; const kernels::RowVisit& visit : sorted_) {
    if (visit.row != last) {
      last = visit.row;
      std::uint8_t& touched = is_touched_[static_cast<std::size_t>(last)];
      run_starts_.push_back(at);
      run_overwrites_.push_back(touched == 0 && last >= dense_rows_);
      if (touched == 0) touched_.push_back(last);
      touched = 1;
    }
    ++at;
  }
  run_starts_.push_back(std::ssize(sorted_));
}

double HeadGradient::begin_dense(std::int64_t rows) {
  if (rows < 0 || rows > grad_VH_.size(0)) {
    throw UserError("head gradient: {} dense rows do not fit its {} rows", rows, grad_VH_.size(0));
  }
  const bool holds_values = dense_rows_ > 0 || std::any_of(touched_.begin(), touched_.end(),
                                                           [&](std::int32_t row) { return row < rows; });
  dense_rows_ = std::max(dense_rows_, rows);
  return holds_values ? 1.0 : 0.0;
}

void HeadGradient::clear() {
  const at::NoGradGuard no_grad;
  if (dense_rows_ > 0) grad_VH_.narrow(0, 0, dense_rows_).zero_();
  if (grad_VH_.is_cpu() && grad_VH_.scalar_type() == at::kFloat) {
    const std::int64_t width = grad_VH_.size(1);
    float* const data = grad_VH_.mutable_data_ptr<float>();
    at::parallel_for(0, std::ssize(touched_), kClearGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t row = touched_[static_cast<std::size_t>(i)];
        if (row >= dense_rows_) kernels::zero_row(data + row * width, width);
      }
      kernels::flush_row_writes();
    });
  } else if (!touched_.empty()) {
    grad_VH_.index_fill_(0, at::tensor(touched_, at::kLong).to(grad_VH_.device()), 0);
  }
  for (const std::int32_t row : touched_) is_touched_[static_cast<std::size_t>(row)] = 0;
  touched_.clear();
  dense_rows_ = 0;
}

std::int64_t HeadGradient::touched_rows() const {
  return dense_rows_ + std::count_if(touched_.begin(), touched_.end(),
                                     [&](std::int32_t row) { return row >= dense_rows_; });
}

}  // namespace routeopd::model
