// RowGradient against plain loops in double precision: sums, their independence of threads and cuts, the rows
// it knows to be touched, dense contributions and clearing.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/row_gradient.h"

#include <set>

#include "kernels/kernel_testing.h"

namespace routeopd::kernels::testing {
namespace {

// `count` visits in random order; every tenth has no row, and half of the others are in row 0.
std::vector<RowVisit> random_visits(std::size_t count, std::int32_t rows, std::int32_t tokens) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<RowVisit> visits(count);
  for (RowVisit& visit : visits) {
    const std::int32_t row = std::uniform_int_distribution(0, rows - 1)(random);
    visit.row = random() % 10 == 0 ? -1 : row * (row % 2);
    visit.token = std::uniform_int_distribution(0, tokens - 1)(random);
    visit.coefficient = normal(random);
  }
  return visits;
}

std::vector<double> sums_by_loop(const TestMatrix& hidden, const std::vector<RowVisit>& visits,
                                 std::int64_t rows, double scale = 1) {
  std::vector<double> sums(static_cast<std::size_t>(rows * hidden.width), 0.0);
  for (const RowVisit& visit : visits) {
    for (std::int64_t i = 0; visit.row >= 0 && i < hidden.width; ++i)
      sums[static_cast<std::size_t>(visit.row * hidden.width + i)] +=
          scale * static_cast<double>(visit.coefficient) * hidden.at(visit.token, i);
  }
  return sums;
}

TEST(RowGradient, AddsVisitsOnEveryTarget) {
  for (const std::int64_t width : {1, 7, 33, 64, 576}) {
    for (const RowType type : kRowTypes) {
      for (const std::int64_t gap : {0, 5}) {
        SCOPED_TRACE(::testing::Message() << "H " << width << ", gap " << gap);
        const TestMatrix hidden(30, width, type, 1, 1, gap);
        const std::vector<RowVisit> visits = random_visits(400, 50, 30);
        for_each_target([&] {
          std::vector<float> grad(static_cast<std::size_t>(50 * width), 0.0F);
          RowGradient gradient(grad.data(), 50, width);
          gradient.add(hidden.view(), visits, {});
          EXPECT_LE(largest_difference(grad, sums_by_loop(hidden, visits, 50)), 1e-4);  // sums of 200 terms
          gradient.add(hidden.view(), visits, {});
          EXPECT_LE(largest_difference(grad, sums_by_loop(hidden, visits, 50, 2)), 2e-4);
          gradient.clear({});
          EXPECT_EQ(grad, std::vector<float>(grad.size(), 0.0F));
        });
      }
    }
  }
}

// Rows count as zero until they are touched: what stands there before is written over, and never added to.
TEST(RowGradient, OverwritesARowAtItsFirstVisit) {
  const TestMatrix hidden(4, 5, RowType::kFloat32, 2);
  std::vector<float> grad(15, std::nanf(""));
  RowGradient gradient(grad.data(), 3, 5);
  gradient.add(hidden.view(), std::vector<RowVisit>{{2, 1, 3.0F}, {0, 0, 1.0F}}, {});
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(static_cast<double>(grad[static_cast<std::size_t>(i)]), hidden.at(0, i));
    EXPECT_FLOAT_EQ(grad[static_cast<std::size_t>(10 + i)], 3.0F * static_cast<float>(hidden.at(1, i)));
    EXPECT_TRUE(std::isnan(grad[static_cast<std::size_t>(5 + i)])) << "a row without visits was touched";
  }
}

TEST(RowGradient, SortsByRowAndKeepsTheOrderWithinARow) {
  for (const std::int32_t rows : {1, 2, 2047, 2048, 2049, 151936, 5000000}) {  // one, two and three digits
    std::vector<RowVisit> visits = random_visits(3000, rows, 30);
    for (std::size_t i = 0; i < visits.size(); ++i) visits[i].token = static_cast<std::int32_t>(i);
    RowGradient gradient(nullptr, rows, 1);
    const std::span<const RowVisit> sorted = gradient.sort(visits);
    std::erase_if(visits, [](const RowVisit& visit) { return visit.row < 0; });
    std::stable_sort(visits.begin(), visits.end(),
                     [](const RowVisit& left, const RowVisit& right) { return left.row < right.row; });
    ASSERT_EQ(sorted.size(), visits.size());
    std::set<std::int32_t> touched;
    for (std::size_t i = 0; i < visits.size(); ++i) {
      ASSERT_EQ(sorted[i].row, visits[i].row);
      ASSERT_EQ(sorted[i].token, visits[i].token);
      touched.insert(visits[i].row);
    }
    EXPECT_EQ(gradient.touched_rows(), std::ssize(touched));
    EXPECT_EQ(std::set<std::int32_t>(gradient.visited_rows().begin(), gradient.visited_rows().end()),
              touched);
  }
}

TEST(RowGradient, IsBitwiseEqualForAnyThreadsAndCuts) {
  const TestMatrix hidden(500, 96, RowType::kFloat32, 3);
  const std::vector<RowVisit> visits = random_visits(20000, 700, 500);
  const auto add = [&](int threads, std::size_t part) {
    std::vector<float> grad(700 * 96, 0.0F);
    RowGradient gradient(grad.data(), 700, 96);
    for (std::size_t at = 0; at < visits.size(); at += part)
      gradient.add(hidden.view(), std::span(visits).subspan(at, std::min(part, visits.size() - at)),
                   in_threads(threads));
    return grad;
  };
  const std::vector<float> expected = add(1, visits.size());
  for (const int threads : {1, 2, 3, 7}) {
    EXPECT_EQ(add(threads, visits.size()), expected);
    EXPECT_EQ(add(threads, 777), expected);
  }
}

TEST(RowGradient, MixesDenseAndSparseContributions) {
  std::vector<float> grad(10 * 4, 0.0F);
  const std::vector<float> ones(2 * 4, 1.0F);
  const RowMatrix hidden{.data = ones.data(), .width = 4, .stride = 4, .type = RowType::kFloat32};
  const auto column = [&] {
    std::vector<float> first;
    for (std::size_t row = 0; row < 10; ++row) first.push_back(grad[row * 4]);
    return first;
  };
  RowGradient gradient(grad.data(), 10, 4);
  gradient.add(hidden, std::vector<RowVisit>{{9, 0, 1.0F}}, {});
  EXPECT_EQ(gradient.begin_dense(6), 0.0);  // row 9 lies after them
  std::fill_n(grad.begin(), 6 * 4, 5.0F);
  EXPECT_EQ(gradient.touched_rows(), 7);
  EXPECT_EQ(gradient.begin_dense(6), 1.0);
  gradient.add(hidden, std::vector<RowVisit>{{2, 0, 1.0F}, {7, 1, 1.0F}},
               {});  // added to 5, written over zero
  EXPECT_EQ(column(), (std::vector<float>{5, 5, 6, 5, 5, 5, 0, 1, 0, 1}));
  EXPECT_EQ(gradient.touched_rows(), 8);
  EXPECT_EQ(gradient.dense_row_count(), 6);
  gradient.clear(in_threads(3));
  EXPECT_EQ(grad, std::vector<float>(grad.size(), 0.0F));
  EXPECT_EQ(gradient.touched_rows(), 0);
  gradient.add(hidden, std::vector<RowVisit>{{2, 0, 1.0F}}, {});
  EXPECT_EQ(gradient.begin_dense(10), 1.0);
}

// Bit for bit what RowGradient holds, rounded; rows without visits are left alone.
TEST(RowGradient, IsWrittenInTheTypeOfTheWeightOnEveryTarget) {
  for (const std::int64_t width : {1, 7, 33, 64, 130}) {
    const TestMatrix hidden(40, width, RowType::kFloat16, 6, 1, 3);
    std::vector<RowVisit> visits = random_visits(600, 150, 40);  // hundreds in row 0, few in the others
    for (std::int32_t row = 150; row < 550; ++row) visits.push_back({row, row % 40, 0.5F});  // one in each
    const auto size = static_cast<std::size_t>(600 * width);
    for_each_target([&] {
      std::vector<float> exact(size, 0.0F);
      RowGradient gradient(exact.data(), 600, width);
      gradient.add(hidden.view(), visits, {});
      EXPECT_LE(largest_difference(exact, sums_by_loop(hidden, visits, 600)), 1e-4);
      for (const int threads : {1, 2, 5}) {
        std::vector<float> floats(size, -7.0F);
        write_row_gradients(hidden.view(), visits, 600, in_threads(threads), RowType::kFloat32,
                            floats.data());
        std::vector<std::uint16_t> brains(size, 7), halves(size, 7);
        write_row_gradients(hidden.view(), visits, 600, in_threads(threads), RowType::kBFloat16,
                            brains.data());
        write_row_gradients(hidden.view(), visits, 600, in_threads(threads), RowType::kFloat16,
                            halves.data());
        const std::set<std::int32_t> touched(gradient.visited_rows().begin(), gradient.visited_rows().end());
        ASSERT_LT(touched.size(), 600U);
        for (std::size_t i = 0; i < size; ++i) {
          const bool visited =
              touched.contains(static_cast<std::int32_t>(i / static_cast<std::size_t>(width)));
          ASSERT_EQ(floats[i], visited ? exact[i] : -7.0F);
          ASSERT_EQ(brains[i], visited ? to_bfloat16(exact[i]).bits : 7);
          ASSERT_EQ(halves[i], visited ? to_float16(exact[i]).bits : 7);
        }
      }
    });
  }
}

TEST(RowGradient, OfNoVisitsIsNotWritten) {
  const TestMatrix hidden(2, 3, RowType::kBFloat16, 6);
  std::vector<std::uint16_t> grad(6, 7);
  write_row_gradients(hidden.view(), {}, 2, in_threads(2), RowType::kFloat16, grad.data());
  write_row_gradients(hidden.view(), std::vector<RowVisit>{{-1, 0, 1.0F}}, 2, {}, RowType::kFloat16,
                      grad.data());
  EXPECT_EQ(grad, std::vector<std::uint16_t>(6, 7));
}

}  // namespace
}  // namespace routeopd::kernels::testing
