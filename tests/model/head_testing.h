// What the tests of the sparse heads share: tensors that end at a page which must not be touched, a loss with
// a kink, its float64 autograd, and every Highway target of this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/system.h"
#include "routeopd/model/heads/head_gradient.h"
#include "testing_errors.h"
#include "testing_targets.h"

namespace routeopd::model::testing {

// A copy whose last byte lies right before an unreadable page: reading or writing past the end ends the test.
inline at::Tensor guarded(const at::Tensor& tensor) {
  const at::Tensor source = tensor.contiguous();
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = source.nbytes();
  if (bytes == 0) return source.clone();
  const std::size_t size = (bytes + page - 1) / page * page;
  char* const base = static_cast<char*>(
      mmap(nullptr, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED || mprotect(base + size, page, PROT_NONE) != 0)
    throw std::runtime_error("mmap failed");
  std::memcpy(base + size - bytes, source.const_data_ptr(), bytes);
  return at::from_blob(
      base + size - bytes, source.sizes(), [base, size, page](void*) { munmap(base, size + page); },
      source.options());
}

// A Huber loss with its knee at kKnee, of value minus target, each term with a weight.
constexpr double kKnee = 0.7;
inline double target_of(std::int64_t t, std::size_t i) {
  return 0.8 * std::sin(1.0 + 3.0 * static_cast<double>(t) + 7.0 * static_cast<double>(i));
}
inline double weight_of(std::int64_t t, std::size_t i) {
  return 0.5 + 0.25 * static_cast<double>((static_cast<std::size_t>(t) + i) % 3);
}

inline double huber_token_loss(std::int64_t t, std::span<const float> values, std::span<float> grad) {
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = static_cast<double>(values[i]) - target_of(t, i), weight = weight_of(t, i);
    const double size = std::abs(error);
    sum += weight * (size <= kKnee ? 0.5 * error * error : kKnee * (size - 0.5 * kKnee));
    grad[i] = static_cast<float>(weight * std::clamp(error, -kKnee, kKnee));
  }
  return sum;
}

// The same loss of a list of values, of which value n is number place[n] of token token[n], in float64
// operations that autograd follows.
inline at::Tensor huber_sum(const at::Tensor& values, const std::vector<std::int64_t>& token,
                            const std::vector<std::size_t>& place) {
  at::Tensor target = at::empty(values.sizes(), at::kDouble), weight = at::empty(values.sizes(), at::kDouble);
  for (std::size_t n = 0; n < token.size(); ++n) {
    target.mutable_data_ptr<double>()[n] = target_of(token[n], place[n]);
    weight.mutable_data_ptr<double>()[n] = weight_of(token[n], place[n]);
  }
  return (weight * at::huber_loss(values, target, at::Reduction::None, kKnee)).sum();
}

// Values, loss and gradients by one way or another.
struct HeadResult {
  at::Tensor values, grad_hidden, grad_weight;
  double loss = 0.0;
};

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0.0;
  return (a.to(at::kDouble).reshape(-1) - b.to(at::kDouble).reshape(-1)).abs().max().item<double>();
}

inline void expect_close(const HeadResult& actual, const HeadResult& expected, double tolerance) {
  EXPECT_LE(distance(actual.values, expected.values), tolerance);
  EXPECT_NEAR(actual.loss, expected.loss, tolerance * static_cast<double>(actual.values.numel()));
  EXPECT_LE(distance(actual.grad_hidden, expected.grad_hidden), tolerance);
  EXPECT_LE(distance(actual.grad_weight, expected.grad_weight), tolerance);
}

inline void expect_identical(const HeadResult& actual, const HeadResult& expected) {
  EXPECT_TRUE(at::equal(actual.values, expected.values));
  EXPECT_EQ(actual.loss, expected.loss);
  EXPECT_TRUE(at::equal(actual.grad_hidden, expected.grad_hidden));
  EXPECT_TRUE(at::equal(actual.grad_weight, expected.grad_weight));
}

// Runs `work` with n threads.
template <class Work>
auto with_threads(int n, const Work& work) {
  const int before = at::get_num_threads();
  at::set_num_threads(n);
  auto result = work();
  at::set_num_threads(before);
  return result;
}

// A TokenLoss that remembers the threads it ran in.
class ThreadRecorder {
 public:
  TokenLoss loss() {
    return [this](std::int64_t t, std::span<const float> values, std::span<float> grad) {
      {
        const std::lock_guard lock(mutex_);
        threads_.insert(std::this_thread::get_id());
      }
      return huber_token_loss(t, values, grad);
    };
  }
  std::size_t threads() const { return threads_.size(); }

 private:
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

}  // namespace routeopd::model::testing
