// The pass over tiles of the vocabulary against plain loops over whole rows of logits: top-k, log-sum-exp and
// gathers, on every instruction set, for vocabularies of one tile and of many; then ties, padding, and the
// same bits for any number of threads, with the logits kept or not.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/vocabulary_tiles.h"

#include <cmath>
#include <limits>

#include "kernels/kernel_testing.h"
#include "kernels/tile_testing.h"

namespace routeopd::kernels::testing {
namespace {

struct TileProblem {
  static constexpr std::int64_t kGathers = 5;
  std::int64_t ids, width;
  std::int32_t k;
  TestMatrix hidden;
  std::vector<float> weight;
  PackedRows head;
  std::vector<std::int32_t> gather_ids;

  TileProblem(std::int64_t rows, std::int64_t hidden_size, std::int64_t vocabulary, std::int32_t top,
              RowType type, std::int64_t gap = 0)
      : ids(vocabulary),
        width(hidden_size),
        k(std::min(top, static_cast<std::int32_t>(vocabulary))),
        hidden(rows, hidden_size, type, 1, 1, gap),
        weight(random_floats(vocabulary * hidden_size, 2, 0.3F)),
        head(row_pointers(weight, hidden_size), hidden_size, vocabulary, false) {
    std::mt19937 random(3);
    for (std::int64_t i = 0; i < rows * kGathers; ++i)
      gather_ids.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary + 1)) - 1);
  }

  TileAnswers score(const ParallelFor& parallel) const {
    TileAnswers answers(hidden.rows, k, kGathers);
    score_tiles(head.product, hidden.view(), hidden.rows, parallel,
                answers.view(k, kGathers, gather_ids.data()));
    return answers;
  }

  std::vector<double> logits(std::int64_t row) const {
    std::vector<double> values;
    for (std::int64_t id = 0; id < ids; ++id) {
      double sum = 0;
      for (std::int64_t i = 0; i < width; ++i)
        sum += hidden.at(row, i) * static_cast<double>(weight[static_cast<std::size_t>(id * width + i)]);
      values.push_back(sum);
    }
    return values;
  }

  // The ids are free to differ where two logits are closer than the tolerance.
  void expect_close(const TileAnswers& got, double tolerance) const {
    for (std::int64_t r = 0; r < hidden.rows; ++r) {
      const std::vector<double> exact = logits(r);
      std::vector<double> sorted = exact;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      double sum = 0;
      for (const double value : exact) sum += std::exp(value - sorted[0]);
      ASSERT_NEAR(got.logsumexp[static_cast<std::size_t>(r)], sorted[0] + std::log(sum), tolerance);
      double entropy = 0;
      for (const double value : exact) {
        const double log_p = value - sorted[0] - std::log(sum);
        entropy -= std::exp(log_p) * log_p;
      }
      ASSERT_NEAR(got.entropy[static_cast<std::size_t>(r)], entropy, tolerance);
      for (std::int32_t i = 0; i < k; ++i) {
        const auto at = static_cast<std::size_t>(r * k + i);
        ASSERT_NEAR(got.top_logits[at], sorted[static_cast<std::size_t>(i)], tolerance);
        ASSERT_NEAR(got.top_logits[at], exact[static_cast<std::size_t>(got.top_ids[at])], tolerance);
      }
      for (std::int64_t g = 0; g < kGathers; ++g) {
        const auto at = static_cast<std::size_t>(r * kGathers + g);
        if (gather_ids[at] < 0) {
          ASSERT_TRUE(std::isnan(got.gathered[at]));
        } else {
          ASSERT_NEAR(got.gathered[at], exact[static_cast<std::size_t>(gather_ids[at])], tolerance);
        }
      }
    }
  }
};

TEST(VocabularyTiles, EqualPlainLoopsOnEveryTarget) {
  for (const std::int64_t vocabulary : {1, 17, 1024, 1025, 5003}) {
    for (const RowType type : kRowTypes) {
      for (const std::int64_t gap : {0, 2}) {
        SCOPED_TRACE(::testing::Message() << vocabulary << " ids, gap " << gap);
        const TileProblem problem(7, 19, vocabulary, 12, type, gap);
        for_each_target([&] { problem.expect_close(problem.score({}), 1e-5); });
      }
    }
  }
}

TEST(VocabularyTiles, GiveTheSameBitsForAnyNumberOfThreads) {
  for (const RowType type : kRowTypes) {
    const TileProblem problem(205, 24, 9001, 32, type, 3);  // three blocks of rows, 16 tiles
    const TileAnswers expected = problem.score({});
    problem.expect_close(expected, 1e-5);
    for (const int threads : {2, 3, 8}) expect_same_bits(problem.score(in_threads(threads)), expected);
  }
}

TEST(VocabularyTiles, EntropiesChangeNothingElse) {
  const TileProblem problem(5, 24, 2500, 9, RowType::kFloat32);
  const TileAnswers expected = problem.score({});
  TileAnswers without(5, 9, TileProblem::kGathers);
  TileScores to = without.view(9, TileProblem::kGathers, problem.gather_ids.data());
  to.entropy_T = nullptr;
  score_tiles(problem.head.product, problem.hidden.view(), 5, {}, to);
  EXPECT_EQ(without.entropy, std::vector<float>(5, -7));
  without.entropy = expected.entropy;
  expect_same_bits(without, expected);
}

TEST(VocabularyTiles, KeptLogitsChangeNothing) {
  const TileProblem problem(5, 24, 2500, 9, RowType::kFloat32);
  const TileAnswers expected = problem.score({});
  for (const int threads : {1, 3}) {
    TileAnswers kept(5, 9, TileProblem::kGathers);
    std::vector<float> logits(5 * 2500);
    std::vector<LogSum> sums;
    score_keeping_logits(problem.head.product, problem.hidden.floats.data(), 5, in_threads(threads),
                         kept.view(9, TileProblem::kGathers, problem.gather_ids.data()), logits.data(), sums);
    expect_same_bits(kept, expected);
    const std::int64_t width = tile_width(2500), tiles = (2500 + width - 1) / width;
    ASSERT_EQ(std::ssize(sums), tiles * 5);
    for (std::int64_t r = 0; r < 5; ++r) {
      const std::vector<double> exact = problem.logits(r);
      EXPECT_LE(
          largest_difference(std::span(logits).subspan(static_cast<std::size_t>(r * 2500), 2500), exact),
          1e-5);
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        double sum = 0;
        for (std::int64_t id = tile * width; id < std::min((tile + 1) * width, std::int64_t{2500}); ++id)
          sum += std::exp(exact[static_cast<std::size_t>(id)]);
        EXPECT_NEAR(sums[static_cast<std::size_t>(tile * 5 + r)].log(), std::log(sum), 1e-5);
      }
    }
  }
}

TEST(VocabularyTiles, EqualLogitsGoByAscendingIdAcrossTiles) {
  constexpr std::int64_t kIds = 3000;
  const std::vector<float> weight(kIds, 2.0F), hidden = {1.5F};
  const PackedRows head(row_pointers(weight, 1), 1, kIds, true);
  for (const int threads : {1, 2, 5}) {
    TileAnswers answers(1, 40, 0);
    score_tiles(head.product, {.data = hidden.data(), .width = 1, .stride = 1, .type = RowType::kFloat32}, 1,
                in_threads(threads), answers.view(40, 0, nullptr));
    for (std::int32_t i = 0; i < 40; ++i) EXPECT_EQ(answers.top_ids[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(answers.top_logits, std::vector<float>(40, 3.0F));
    EXPECT_NEAR(answers.logsumexp[0], 3 + std::log(static_cast<double>(kIds)), 1e-5);
  }
}

// Panels hold 16 ids: those past the vocabulary must not come up as logits of 0 among negative ones.
TEST(VocabularyTiles, PanelPaddingTakesNoPart) {
  const std::vector<float> weight(19, -5.0F), hidden = {1.0F};
  const PackedRows head(row_pointers(weight, 1), 1, 19, false);
  TileAnswers answers(1, 19, 0);
  score_tiles(head.product, {.data = hidden.data(), .width = 1, .stride = 1, .type = RowType::kFloat32}, 1,
              {}, answers.view(19, 0, nullptr));
  EXPECT_EQ(answers.top_logits, std::vector<float>(19, -5.0F));
  EXPECT_NEAR(answers.logsumexp[0], -5 + std::log(19.0), 1e-6);
}

// Tiles cover the vocabulary, are whole panels, and stay in cache.
TEST(VocabularyTiles, WidthIsAFunctionOfTheVocabularyAlone) {
  for (const std::int64_t ids : {1, 16, 1000, 1024, 1025, 49152, 151936, 262144}) {
    const std::int64_t width = tile_width(ids), tiles = (ids + width - 1) / width;
    EXPECT_LE(width, 1024) << ids;
    if (tiles == 1) continue;
    EXPECT_EQ(width % kPanelWidth, 0) << ids;
    EXPECT_GT(width, 1024 / 16) << ids;
    EXPECT_LE(tiles, (ids + 8 * 1024 - 1) / (8 * 1024) * 8) << ids;
  }
}

}  // namespace
}  // namespace routeopd::kernels::testing
