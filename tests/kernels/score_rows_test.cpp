// The pass over a head as it lies in memory: bit for bit what score_tiles() gives on a packed copy of it, for
// every type and odd shapes, on every instruction set and for any number of threads; then logits that are
// scaled, capped and have a bias, against plain loops in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/kernel_testing.h"
#include "kernels/tile_testing.h"

namespace routeopd::kernels::testing {
namespace {

struct RowsProblem {
  static constexpr std::int64_t kGathers = 4;
  TestMatrix hidden, weight;
  std::int64_t ids;
  std::int32_t k;
  std::vector<std::int32_t> gather_ids;

  // Three rows of the weight lie past the ids: padding, which takes no part.
  RowsProblem(std::int64_t rows, std::int64_t width, std::int64_t vocabulary, std::int64_t top,
              RowType hidden_type, RowType weight_type, std::int64_t gap = 0)
      : hidden(rows, width, hidden_type, 1, 1, gap),
        weight(vocabulary + 3, width, weight_type, 2, 0.3F, gap),
        ids(vocabulary),
        k(static_cast<std::int32_t>(std::min(top, vocabulary))) {
    std::mt19937 random(3);
    for (std::int64_t i = 0; i < rows * kGathers; ++i)
      gather_ids.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(ids + 1)) - 1);
  }

  TileAnswers by_rows(const ParallelFor& parallel, const LogitTransform& transform = {}) const {
    TileAnswers answers(hidden.rows, k, kGathers);
    score_rows(weight.view(), ids, hidden.view(), hidden.rows, parallel,
               answers.view(k, kGathers, gather_ids.data()), transform);
    return answers;
  }

  TileAnswers by_packed_copy() const {
    std::vector<const float*> rows;
    for (std::int64_t id = 0; id < ids; ++id) rows.push_back(weight.floats.data() + id * weight.stride);
    const PackedRows head(rows, weight.width, ids, false);
    TileAnswers answers(hidden.rows, k, kGathers);
    score_tiles(head.product, hidden.view(), hidden.rows, {}, answers.view(k, kGathers, gather_ids.data()));
    return answers;
  }

  // The logits of a row by their definition.
  std::vector<double> logits(std::int64_t row, const LogitTransform& transform) const {
    std::vector<double> values;
    for (std::int64_t id = 0; id < ids; ++id) {
      double z = transform.bias == nullptr ? 0.0 : static_cast<double>(transform.bias[id]);
      for (std::int64_t i = 0; i < weight.width; ++i) z += hidden.at(row, i) * weight.at(id, i);
      z *= static_cast<double>(transform.scale);
      const auto cap = static_cast<double>(transform.softcap);
      values.push_back(cap == 0 ? z : cap * std::tanh(z / cap));
    }
    return values;
  }

  void expect_close(const TileAnswers& got, const LogitTransform& transform, double tolerance) const {
    for (std::int64_t r = 0; r < hidden.rows; ++r) {
      const std::vector<double> exact = logits(r, transform);
      std::vector<double> sorted = exact;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      double sum = 0, entropy = 0;
      for (const double value : sorted) sum += std::exp(value - sorted[0]);
      const double log_sum = sorted[0] + std::log(sum);
      for (const double value : exact) entropy -= std::exp(value - log_sum) * (value - log_sum);
      ASSERT_NEAR(got.logsumexp[static_cast<std::size_t>(r)], log_sum, tolerance);
      ASSERT_NEAR(got.entropy[static_cast<std::size_t>(r)], entropy, tolerance);
      for (std::int32_t i = 0; i < k; ++i) {
        const auto at = static_cast<std::size_t>(r * k + i);
        ASSERT_NEAR(got.top_logits[at], sorted[static_cast<std::size_t>(i)], tolerance);
        ASSERT_NEAR(got.top_logits[at], exact[static_cast<std::size_t>(got.top_ids[at])], tolerance);
      }
      for (std::int64_t g = 0; g < kGathers; ++g) {
        const auto at = static_cast<std::size_t>(r * kGathers + g);
        ASSERT_EQ(std::isnan(got.gathered[at]), gather_ids[at] < 0);
        if (gather_ids[at] < 0) continue;
        ASSERT_NEAR(got.gathered[at], exact[static_cast<std::size_t>(gather_ids[at])], tolerance);
      }
    }
  }
};

TEST(ScoreRows, EqualAPackedCopyBitForBitOnEveryTarget) {
  for (const std::int64_t vocabulary : {1, 15, 16, 17, 1023, 1024, 1025, 3001}) {
    for (const std::int64_t rows : {1, 3, 97}) {
      const RowsProblem problem(rows, 19, vocabulary, 12, RowType::kFloat32, RowType::kFloat32, rows % 2);
      SCOPED_TRACE(::testing::Message() << vocabulary << " ids, " << rows << " rows");
      for_each_target([&] { expect_same_bits(problem.by_rows({}), problem.by_packed_copy()); });
    }
  }
}

TEST(ScoreRows, EqualAPackedCopyForEveryType) {
  for (const RowType hidden_type : kRowTypes) {
    for (const RowType weight_type : kRowTypes) {
      for (const std::int64_t width : {1, 33, 300}) {  // more than one chunk of sums
        const RowsProblem problem(5, width, 1100, 7, hidden_type, weight_type, width == 33 ? 3 : 0);
        SCOPED_TRACE(::testing::Message() << "H " << width);
        for_each_target([&] {
          const TileAnswers answers = problem.by_rows({});
          expect_same_bits(answers, problem.by_packed_copy());
          problem.expect_close(answers, {}, 3e-5);
        });
      }
    }
  }
}

TEST(ScoreRows, CutRowsIntoBlocksAndPasses) {
  for (const std::int64_t rows : {0, 1, 2, 95, 96, 97, 193, 400}) {
    for (const std::int64_t k : {1, 40, 1025}) {  // the last takes 400 rows in three passes
      const RowsProblem problem(rows, 7, 1025, k, RowType::kBFloat16, RowType::kFloat32);
      SCOPED_TRACE(::testing::Message() << rows << " rows, k " << k);
      expect_same_bits(problem.by_rows({}), problem.by_packed_copy());
    }
  }
}

TEST(ScoreRows, GiveTheSameBitsForAnyNumberOfThreads) {
  for (const std::int64_t rows : {60, 205}) {
    const RowsProblem problem(rows, 24, 9001, 32, RowType::kFloat16, RowType::kBFloat16, 1);
    const std::vector<float> bias = random_floats(9001, 4);
    const LogitTransform transform{.scale = 0.5F, .softcap = 6, .bias = bias.data()};
    const TileAnswers expected = problem.by_packed_copy(), transformed = problem.by_rows({}, transform);
    for (const int threads : {1, 2, 3, 8}) {
      expect_same_bits(problem.by_rows(in_threads(threads)), expected);
      expect_same_bits(problem.by_rows(in_threads(threads), transform), transformed);
    }
  }
}

TEST(ScoreRows, TransformLogitsBeforeAnythingReadsThem) {
  for (const std::int64_t vocabulary : {1, 17, 2500}) {
    for (const std::int64_t rows : {3, 100}) {
      const RowsProblem problem(rows, 19, vocabulary, 9, RowType::kFloat32, RowType::kFloat32);
      const std::vector<float> bias = random_floats(vocabulary, 5, 2);
      for (const LogitTransform& transform :
           {LogitTransform{.bias = bias.data()}, LogitTransform{.scale = 0.25F},
            LogitTransform{.scale = -1},  // the other end of the vocabulary comes first
            LogitTransform{.softcap = 4}, LogitTransform{.scale = 2, .softcap = 5, .bias = bias.data()}}) {
        SCOPED_TRACE(::testing::Message() << vocabulary << " ids, scale " << transform.scale);
        problem.expect_close(problem.by_rows({}, transform), transform, 2e-5);
      }
    }
  }
}

// A row that is not finite stays alone with it.
TEST(ScoreRows, NanAndInfinityStayInTheirRows) {
  RowsProblem problem(100, 19, 2100, 8, RowType::kFloat32, RowType::kFloat32);
  const TileAnswers before = problem.by_rows({});
  problem.hidden.floats[4 * 19 + 3] = std::nanf("");
  problem.hidden.floats[98 * 19 + 18] = HUGE_VALF;
  for (const int threads : {1, 3}) {
    const TileAnswers answers = problem.by_rows(in_threads(threads));
    for (std::size_t r = 0; r < 100; ++r) {
      for (std::size_t i = 0; i < 8; ++i) {
        ASSERT_GE(answers.top_ids[r * 8 + i], -1);
        ASSERT_LT(answers.top_ids[r * 8 + i], 2100);
      }
      if (r == 4 || r == 98) {  // the second has logits of both signs
        EXPECT_FALSE(std::isfinite(answers.logsumexp[r]));
      } else {
        EXPECT_EQ(answers.logsumexp[r], before.logsumexp[r]);
        EXPECT_EQ(answers.top_ids[r * 8], before.top_ids[r * 8]);
      }
    }
  }
}

TEST(ScoreRows, EqualLogitsGoByAscendingIdAcrossTiles) {
  constexpr std::int64_t kIds = 3000;
  const std::vector<std::uint16_t> weight(kIds, 0x4000);  // 2 in both types of 16 bits
  const std::vector<float> hidden = {1.5F};
  for (const RowType type : {RowType::kBFloat16, RowType::kFloat16}) {
    for (const int threads : {1, 2, 5}) {
      TileAnswers answers(1, 40, 0);
      score_rows({.data = weight.data(), .width = 1, .stride = 1, .type = type}, kIds,
                 {.data = hidden.data(), .width = 1, .stride = 1, .type = RowType::kFloat32}, 1,
                 in_threads(threads), answers.view(40, 0, nullptr));
      for (std::int32_t i = 0; i < 40; ++i) EXPECT_EQ(answers.top_ids[static_cast<std::size_t>(i)], i);
      EXPECT_EQ(answers.top_logits, std::vector<float>(40, 3.0F));
      EXPECT_NEAR(answers.logsumexp[0], 3 + std::log(static_cast<double>(kIds)), 1e-5);
    }
  }
}

}  // namespace
}  // namespace routeopd::kernels::testing
