// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/row_gradient.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

namespace routeopd::kernels {
namespace {

constexpr std::int64_t kVisitGrain = 128;  // visits of 1,536 columns take about 50 microseconds
constexpr std::int64_t kClearGrain = 128;  // rows

constexpr int kMaxDigitBits = 11;
constexpr int kMaxDigits = 3;  // 3 * 11 bits hold any row number

}  // namespace

RowGradient::RowGradient(float* grad_VH, std::int64_t rows, std::int64_t width)
    : grad_VH_(grad_VH), width_(width), is_visited_(static_cast<std::size_t>(rows), 0) {}

void RowGradient::add(const RowMatrix& hidden, std::span<const RowVisit> visits,
                      const ParallelFor& parallel) {
  const std::int64_t count = std::ssize(sort(visits));
  parallel(0, count, kVisitGrain, [&](std::int64_t begin, std::int64_t end) {
    // The runs that begin in [begin, end) are this thread's.
    auto run = std::lower_bound(run_starts_.begin(), run_starts_.end(), begin);
    for (; *run < end; ++run) {
      const RowVisit* const first = sorted_.data() + *run;
      const std::int64_t length = run[1] - run[0];
      const bool overwrite = run_overwrites_[static_cast<std::size_t>(run - run_starts_.begin())] != 0;
      add_hidden_rows(hidden, first, length, count - run[1], overwrite, grad_VH_ + first->row * width_);
    }
    flush_row_writes();
  });
}

std::span<const RowVisit> RowGradient::sort(std::span<const RowVisit> visits) {
  sort_by_row(visits);
  mark_touched();
  return sorted_;
}

// Least-significant-digit radix sort into sorted_.
void RowGradient::sort_by_row(std::span<const RowVisit> visits) {
  const int bits = std::max(1, static_cast<int>(std::bit_width(is_visited_.size() - 1)));
  const int digits = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  const int digit_bits = (bits + digits - 1) / digits;
  const std::uint32_t mask = (1U << digit_bits) - 1;
  std::array<std::array<std::size_t, 1 << kMaxDigitBits>, kMaxDigits> position{};
  std::size_t count = 0;
  for (const RowVisit& visit : visits) {
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
    const std::span<const RowVisit> from = digit == 0 ? visits : std::span<const RowVisit>(unsorted_);
    for (const RowVisit& visit : from) {
      if (visit.row < 0) continue;
      sorted_[position[digit][(static_cast<std::uint32_t>(visit.row) >> (digit * digit_bits)) & mask]++] =
          visit;
    }
    if (digit + 1 < digits) std::swap(sorted_, unsorted_);
  }
}

// Cuts sorted_ into runs of one row and marks their rows.
void RowGradient::mark_touched() {
  run_starts_.clear();
  run_overwrites_.clear();
  std::int32_t last = -1;
  for (std::int64_t at = 0; const RowVisit& visit : sorted_) {
    if (visit.row != last) {
      last = visit.row;
      std::uint8_t& visited = is_visited_[static_cast<std::size_t>(last)];
      run_starts_.push_back(at);
      run_overwrites_.push_back(visited == 0 && last >= dense_rows_);
      if (visited == 0) visited_.push_back(last);
      visited = 1;
    }
    ++at;
  }
  run_starts_.push_back(std::ssize(sorted_));
}

double RowGradient::begin_dense(std::int64_t rows) {
  const bool holds_values = dense_rows_ > 0 || std::any_of(visited_.begin(), visited_.end(),
                                                           [&](std::int32_t row) { return row < rows; });
  dense_rows_ = std::max(dense_rows_, rows);
  return holds_values ? 1.0 : 0.0;
}

void RowGradient::touch(std::span<const std::int32_t> rows) {
  for (const std::int32_t row : rows) {
    std::uint8_t& visited = is_visited_[static_cast<std::size_t>(row)];
    if (visited == 0) visited_.push_back(row);
    visited = 1;
  }
}

void RowGradient::clear(const ParallelFor& parallel) {
  parallel(0, dense_rows_, kClearGrain, [&](std::int64_t begin, std::int64_t end) {
    zero_row(grad_VH_ + begin * width_, (end - begin) * width_);
    flush_row_writes();
  });
  parallel(0, std::ssize(visited_), kClearGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t row = visited_[static_cast<std::size_t>(i)];
      if (row >= dense_rows_) zero_row(grad_VH_ + row * width_, width_);
    }
    flush_row_writes();
  });
  forget();
}

void RowGradient::forget() {
  for (const std::int32_t row : visited_) is_visited_[static_cast<std::size_t>(row)] = 0;
  visited_.clear();
  dense_rows_ = 0;
}

std::int64_t RowGradient::touched_rows() const {
  return dense_rows_ + std::count_if(visited_.begin(), visited_.end(),
                                     [&](std::int32_t row) { return row >= dense_rows_; });
}

void write_row_gradients(const RowMatrix& hidden, std::span<const RowVisit> visits, std::int64_t rows,
                         const ParallelFor& parallel, RowType type, void* grad_VH) {
  RowGradient order(nullptr, rows, hidden.width);
  const std::span<const RowVisit> sorted = order.sort(visits);
  const std::span<const std::int64_t> starts = order.run_starts();
  const std::int64_t count = std::ssize(sorted), row_bytes = hidden.width * element_bytes(type);
  parallel(0, count, kVisitGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sum(static_cast<std::size_t>(hidden.width));
    for (auto run = std::lower_bound(starts.begin(), starts.end(), begin); *run < end; ++run) {
      const RowVisit* const first = sorted.data() + *run;
      round_hidden_rows(hidden, first, run[1] - run[0], count - run[1], type, sum.data(),
                        static_cast<std::byte*>(grad_VH) + first->row * row_bytes);
    }
  });
}

}  // namespace routeopd::kernels
