// Times of single kernels by size, to see where a change moved something. A time alone is not a result:
// ratios, checked and interleaved, come from `routeopd bench`.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <random>
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

void TopkLogsumexp(benchmark::State& state) {
  const std::vector<float> row = random_row(static_cast<std::size_t>(state.range(0)));
  std::vector<float> values(32);
  std::vector<std::int32_t> ids(32);
  float lse = 0;
  for (auto _ : state) {
    kernels::topk_logsumexp(row.data(), 1, state.range(0), state.range(0), 32, values.data(), ids.data(),
                            &lse);
    benchmark::DoNotOptimize(lse);
  }
}
BENCHMARK(TopkLogsumexp)->Arg(4096)->Arg(49152)->Arg(151936);

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
