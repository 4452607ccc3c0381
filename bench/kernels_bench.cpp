// Times of single kernels by size, to see where a change moved something. A time alone is not a result:
// ratios, checked and interleaved, come from `routeopd bench`.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <hwy/targets.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "routeopd/kernels/dense_rows.h"
#include "routeopd/kernels/row_topk.h"
#include "routeopd/routing/union_kernel.h"

namespace routeopd {
namespace {

std::vector<float> random_row(std::size_t size) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> row(size);
  for (float& value : row) value = normal(random);
  return row;
}

void RankIds(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<std::int32_t> ids(n + routing::kUnionPad, routing::kNoId), rank(n + routing::kUnionPad);
  std::mt19937 random(1);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::int32_t>(random() % 151936);
  for (auto _ : state) {
    routing::rank_ids(ids.data(), n, rank.data());
    benchmark::DoNotOptimize(rank.data());
  }
}
BENCHMARK(RankIds)->Arg(32)->Arg(64)->Arg(128)->Arg(512);

void UnionImbalance(benchmark::State& state) {
  routing::UnionState one;
  one.n = static_cast<std::size_t>(state.range(0));
  one.reserve(one.n);
  const std::vector<float> student = random_row(one.student_logits.size()),
                           teacher = random_row(one.student_logits.size());
  for (auto _ : state) {
    one.student_logits = student;
    one.teacher_logits = teacher;
    routing::union_imbalance(one, -18.4F);
    benchmark::DoNotOptimize(one.mass);
  }
}
BENCHMARK(UnionImbalance)->Arg(64)->Arg(1024)->Arg(151936);

// Rows of V logits, k of each: many rows in turn, so that no branch is learned by heart.
void TopkLogsumexp(benchmark::State& state, std::int64_t target) {
  const std::int64_t cols = state.range(0), rows = std::max<std::int64_t>(16, (1 << 20) / cols);
  const auto k = static_cast<std::int32_t>(state.range(1));
  const std::vector<float> logits = random_row(static_cast<std::size_t>(rows * cols));
  std::vector<float> values(static_cast<std::size_t>(rows * k)), lse(static_cast<std::size_t>(rows));
  std::vector<std::int32_t> ids(values.size());
  hwy::SetSupportedTargetsForTest(target);
  for (auto _ : state) {
    kernels::topk_logsumexp(logits.data(), rows, cols, cols, k, values.data(), ids.data(), lse.data());
    benchmark::DoNotOptimize(lse.data());
  }
  hwy::SetSupportedTargetsForTest(0);
  state.counters["row"] = benchmark::Counter(
      static_cast<double>(rows), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// TopkLogsumexp/AVX2/300/32: one per instruction set of this machine, V and k.
const bool registered = [] {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const std::string name = std::string("TopkLogsumexp/") + hwy::TargetName(target);
    auto* const topk = benchmark::RegisterBenchmark(
        name.c_str(), [target](benchmark::State& state) { TopkLogsumexp(state, target); });
    topk->ArgsProduct({{300, 2048, 49152, 151936}, {8, 12, 16, 20, 24, 28, 32, 48, 64}});
  }
  return true;
}();

void RowSoftmaxGradient(benchmark::State& state) {
  const std::vector<float> row = random_row(static_cast<std::size_t>(state.range(0)));
  std::vector<float> grad(row.size());
  for (auto _ : state) {
    grad = row;
    kernels::row_softmax(grad, kernels::row_logsumexp(grad), -1);
    benchmark::DoNotOptimize(grad.data());
  }
}
BENCHMARK(RowSoftmaxGradient)->Arg(49152)->Arg(151936);

}  // namespace
}  // namespace routeopd
