// SPDX-License-Identifier: Apache-2.0
#include "routeopd/run/measured_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "routeopd/base/system.h"
#include "routeopd/model/inference/packed_matrix.h"

namespace routeopd::run {
namespace {

constexpr double kSeconds = 2;                               // of each measurement
constexpr double kNetwork = 10e9 / 8;                        // bytes/s
constexpr std::int64_t kReadFloats = std::int64_t{1} << 26;  // 268 MB: past every cache

// The median seconds of a call among those that fit into kSeconds, after one that is not counted. Not the
// least: a run takes minutes, and no processor keeps its best moment for that long.
template <class Work>
double median_seconds(const Work& work) {
  using Clock = std::chrono::steady_clock;
  work();
  std::vector<double> seconds;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < kSeconds);
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace

scale::Device measured_cpu() {
  const c10::NoGradGuard no_grad;
  constexpr std::int64_t kRows = 512, kInputs = 1536, kOutputs = 1536;  // as large as a learner's products
  constexpr double kOperations = 2.0 * kRows * kInputs * kOutputs;
  const at::Tensor x = at::ones({kRows, kInputs}), weight = at::ones({kOutputs, kInputs});
  const double products = kOperations / median_seconds([&] { at::linear(x, weight); });
  std::vector<model::PanelSource> source(1);
  source[0].add_rows(weight, {});
  const model::PackedMatrices panels(source, model::WeightStorage::kFloat32);
  at::Tensor y = at::empty({kRows, kOutputs});
  const double engine = kOperations / median_seconds([&] { model::multiply(panels[0], x, y); });
  const at::Tensor floats = at::ones({kReadFloats});
  const double bandwidth = 4.0 * kReadFloats / median_seconds([&] { floats.sum(); });
  return {.name = std::string(scale::kThisCpu),
          .kind = scale::DeviceKind::kCpu,
          .bfloat16 = products,
          .float32 = products,
          .engine = engine,
          .memory = static_cast<double>(available_bytes()),
          .bandwidth = bandwidth,
          .link = kNetwork,
          .network = kNetwork,
          .per_machine = 1,
          .source = fmt::format("measured now: {}, {} threads; free memory; network assumed 10 Gb/s",
                                cpu_model(), at::get_num_threads())};
}

}  // namespace routeopd::run
