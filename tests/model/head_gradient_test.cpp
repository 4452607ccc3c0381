// HeadGradient against a plain loop in float64: sums, their independence of threads and cuts, the rows it
// knows to be touched, dense contributions, clearing and errors.
// SPDX-License-Identifier: Apache-2.0
#include <hwy/highway.h>

#include <atomic>
#include <random>

#include "model/head_testing.h"

namespace routeopd::model::testing {
namespace {

// `count` visits in random order; every tenth has no row.
std::vector<kernels::RowVisit> make_visits(std::size_t count, std::int32_t rows, std::int32_t tokens) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<kernels::RowVisit> visits(count);
  for (kernels::RowVisit& visit : visits) {
    const std::int32_t row = std::uniform_int_distribution(0, rows - 1)(random);
    visit.row = random() % 10 == 0 ? -1 : row * (row % 2);  // half of them in row 0
    visit.token = std::uniform_int_distribution(0, tokens - 1)(random);
    visit.coefficient = normal(random);
  }
  return visits;
}

at::Tensor by_loop(const at::Tensor& hidden_TH, const std::vector<kernels::RowVisit>& visits,
                   std::int64_t rows) {
  const at::Tensor hidden = hidden_TH.to(at::kDouble);
  at::Tensor grad_VH = at::zeros({rows, hidden.size(1)}, at::kDouble);
  for (const kernels::RowVisit& visit : visits) {
    if (visit.row >= 0) grad_VH[visit.row].add_(hidden[visit.token], static_cast<double>(visit.coefficient));
  }
  return grad_VH;
}

TEST(HeadGradient, AddsVisitsOnEveryTarget) {
  for (const std::int64_t width : {1, 7, 33, 64, 576}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(::testing::Message() << "H " << width << " " << at::toString(type));
      const at::Tensor hidden = guarded(at::randn({30, width}).to(type));
      const std::vector<kernels::RowVisit> visits = make_visits(400, 50, 30);
      const at::Tensor expected = by_loop(hidden, visits, 50);
      const auto check = [&](Backend backend) {
        HeadGradient gradient(guarded(at::zeros({50, width})));
        gradient.add_visits(hidden, visits, backend);
        EXPECT_LE(distance(gradient.tensor(), expected), 1e-4);  // sums of 200 terms
        gradient.add_visits(hidden, visits, backend);
        EXPECT_LE(distance(gradient.tensor(), 2.0 * expected), 2e-4);
        gradient.clear();
        EXPECT_EQ(gradient.tensor().abs().max().item<float>(), 0.0F);
        gradient.add_visits(hidden, visits, backend);
        EXPECT_LE(distance(gradient.tensor(), expected), 1e-4);
      };
      check(Backend::kAten);
      for_each_target([&] { check(Backend::kHighway); });
    }
  }
}

TEST(HeadGradient, AddsFloat64WithAten) {
  const at::Tensor hidden = at::randn({30, 33}, at::kDouble);
  const std::vector<kernels::RowVisit> visits = make_visits(400, 50, 30);
  HeadGradient gradient(at::zeros({50, 33}, at::kDouble));
  gradient.add_visits(hidden, visits);
  EXPECT_LE(distance(gradient.tensor(), by_loop(hidden, visits, 50)), 1e-12);
  gradient.clear();
  EXPECT_EQ(gradient.tensor().abs().max().item<double>(), 0.0);
}

// Row numbers of one, two and three digits of the radix sort.
TEST(HeadGradient, SortsAnyNumberOfRows) {
  for (const std::int32_t rows : {1, 2, 2047, 2048, 2049, 151936, 5000000}) {
    const at::Tensor hidden = at::randn({30, 1});
    const std::vector<kernels::RowVisit> visits = make_visits(3000, rows, 30);
    HeadGradient gradient(at::zeros({rows, 1}));
    gradient.add_visits(hidden, visits);
    std::set<std::int32_t> touched;
    std::vector<double> expected(static_cast<std::size_t>(rows), 0.0);
    for (const kernels::RowVisit& visit : visits) {
      if (visit.row < 0) continue;
      touched.insert(visit.row);
      expected[static_cast<std::size_t>(visit.row)] +=
          static_cast<double>(visit.coefficient) * hidden[visit.token].item<double>();
    }
    EXPECT_LE(distance(gradient.tensor(), at::tensor(expected, at::kDouble)), 1e-3);
    EXPECT_EQ(gradient.touched_rows(), std::ssize(touched));
  }
}

TEST(HeadGradient, IsBitwiseEqualForAnyThreadsAndCuts) {
  const at::Tensor hidden = at::randn({500, 96});
  const std::vector<kernels::RowVisit> visits = make_visits(20000, 700, 500);
  const auto add = [&](int threads, std::size_t part) {
    return with_threads(threads, [&] {
      HeadGradient gradient(at::zeros({700, 96}));
      for (std::size_t at = 0; at < visits.size(); at += part) {
        gradient.add_visits(hidden, std::span(visits).subspan(at, std::min(part, visits.size() - at)));
      }
      return gradient.tensor();
    });
  };
  const at::Tensor expected = add(1, visits.size());
  for (const int threads : {1, 2, 3}) {
    EXPECT_TRUE(at::equal(add(threads, visits.size()), expected));
    EXPECT_TRUE(at::equal(add(threads, 777), expected));
  }
}

// Without -fopenmp, at::parallel_for runs serially and says nothing.
TEST(HeadGradient, ParallelForSplits) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  with_threads(2, [&] {
    at::parallel_for(0, 1000, 1, [&](std::int64_t, std::int64_t) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    return 0;
  });
  EXPECT_EQ(threads.size(), 2U);
}

TEST(HeadGradient, KnowsItsTouchedRows) {
  HeadGradient gradient(at::zeros({10, 4}));
  const at::Tensor hidden = at::ones({2, 4});
  EXPECT_EQ(gradient.touched_rows(), 0);
  gradient.add_visits(
      hidden, std::vector<kernels::RowVisit>{{3, 0, 1.0F}, {3, 1, 1.0F}, {-1, 0, 1.0F}, {9, 1, 2.0F}});
  EXPECT_EQ(gradient.touched_rows(), 2);
  gradient.add_visits(hidden, std::vector<kernels::RowVisit>{{9, 0, 1.0F}, {8, 0, 1.0F}});
  EXPECT_EQ(gradient.touched_rows(), 3);
  const at::Tensor sums = gradient.tensor().sum(1);
  EXPECT_TRUE(at::equal(sums, at::tensor({0.0F, 0.0F, 0.0F, 8.0F, 0.0F, 0.0F, 0.0F, 0.0F, 4.0F, 12.0F})));
  gradient.clear();
  EXPECT_EQ(gradient.touched_rows(), 0);
}

TEST(HeadGradient, MixesDenseAndSparseContributions) {
  HeadGradient gradient(at::zeros({10, 4}));
  const at::Tensor hidden = at::ones({2, 4});
  gradient.add_visits(hidden, std::vector<kernels::RowVisit>{{9, 0, 1.0F}});
  EXPECT_EQ(gradient.begin_dense(6), 0.0);  // row 9 comes after them
  gradient.tensor().narrow(0, 0, 6).fill_(5.0F);
  EXPECT_EQ(gradient.touched_rows(), 7);
  EXPECT_EQ(gradient.begin_dense(6), 1.0);
  gradient.add_visits(
      hidden, std::vector<kernels::RowVisit>{{2, 0, 1.0F}, {7, 1, 1.0F}});  // added to 5, written over zero
  EXPECT_TRUE(at::equal(gradient.tensor().select(1, 0),
                        at::tensor({5.0F, 5.0F, 6.0F, 5.0F, 5.0F, 5.0F, 0.0F, 1.0F, 0.0F, 1.0F})));
  EXPECT_EQ(gradient.touched_rows(), 8);
  EXPECT_EQ(gradient.begin_dense(10), 1.0);
  EXPECT_EQ(gradient.touched_rows(), 10);
  gradient.clear();
  EXPECT_EQ(gradient.tensor().abs().max().item<float>(), 0.0F);
  EXPECT_EQ(gradient.touched_rows(), 0);
  gradient.add_visits(hidden, std::vector<kernels::RowVisit>{{2, 0, 1.0F}});
  EXPECT_EQ(gradient.begin_dense(10), 1.0);
}

TEST(HeadGradient, RefusesWhatDoesNotFit) {
  HeadGradient gradient(at::zeros({10, 4}));
  const auto add = [&](const at::Tensor& hidden, const kernels::RowVisit& visit) {
    return error_of(
        [&] { gradient.add_visits(hidden, std::vector<kernels::RowVisit>{{1, 0, 1.0F}, visit}); });
  };
  EXPECT_EQ(add(at::ones({2, 4}), {10, 1, 1.0F}),
            "head gradient: a visit names row 10 of 10 and token 1 of 2");
  EXPECT_EQ(add(at::ones({2, 4}), {0, 2, 1.0F}), "head gradient: a visit names row 0 of 10 and token 2 of 2");
  EXPECT_EQ(add(at::ones({2, 4}), {0, -1, 1.0F}),
            "head gradient: a visit names row 0 of 10 and token -1 of 2");
  EXPECT_NE(add(at::ones({2, 5}), {0, 0, 1.0F}), "");
  EXPECT_NE(add(at::ones({2, 4}, at::kDouble), {0, 0, 1.0F}), "");
  EXPECT_NE(error_of([&] { gradient.begin_dense(11); }), "");
  EXPECT_EQ(gradient.touched_rows(), 0);
  EXPECT_NE(error_of([] { HeadGradient(at::zeros({3})); }), "");
  EXPECT_NE(error_of([] { HeadGradient(at::zeros({3, 2}, at::kBFloat16)); }), "");
  EXPECT_NE(error_of([] { HeadGradient(at::zeros({3, 2}).t()); }), "");
}

}  // namespace
}  // namespace routeopd::model::testing
