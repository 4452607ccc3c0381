// The pair head's and the gather head's loops against plain loops in double precision: values, losses and
// gradients on every instruction set, for odd widths, gaps between rows, missing pairs and tokens without
// any; then the same bits for any number of threads.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/sparse_heads.h"

#include <cmath>
#include <mutex>
#include <set>
#include <thread>

#include "kernels/kernel_testing.h"

namespace routeopd::kernels::testing {
namespace {

// A quadratic loss in double, or in a head's callback.
double slope_of(std::int64_t t, std::size_t i, double value) {
  return value - std::sin(1.0 + 3.0 * static_cast<double>(t) + 7.0 * static_cast<double>(i));
}

double quadratic_loss(std::int64_t t, std::span<const float> values, std::span<float> grad) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double slope = slope_of(t, i, static_cast<double>(values[i]));
    sum += slope * slope / 2;
    grad[i] = static_cast<float>(slope);
  }
  return sum;
}

struct HeadAnswers {
  std::vector<float> values, grad_hidden, grad_weight;
  double loss = 0;

  bool operator==(const HeadAnswers&) const = default;
};

struct ExactHeadAnswers {
  std::vector<double> values, grad_hidden, grad_weight;
  double loss = 0;
};

void expect_close(const HeadAnswers& got, const ExactHeadAnswers& expected, double tolerance) {
  EXPECT_LE(largest_difference(got.values, expected.values), tolerance);
  EXPECT_LE(largest_difference(got.grad_hidden, expected.grad_hidden), tolerance);
  EXPECT_LE(largest_difference(got.grad_weight, expected.grad_weight), tolerance);
  EXPECT_NEAR(got.loss, expected.loss, tolerance * static_cast<double>(1 + got.values.size()));
}

// Both heads over one random problem: M pairs per token, or the ids of lists of uneven length.
struct HeadProblem {
  TestMatrix hidden, weight;
  std::int64_t per_token;
  std::vector<std::int32_t> source, destination;
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> ids;

  HeadProblem(std::int64_t tokens, std::int64_t width, std::int64_t rows, std::int64_t pairs,
              RowType hidden_type, RowType weight_type, std::int64_t gap = 0)
      : hidden(tokens, width, hidden_type, 7, 1, gap),
        weight(rows, width, weight_type, 8, 1 / std::sqrt(static_cast<float>(width)), gap),
        per_token(pairs) {
    std::mt19937 random(9);
    const auto any_row = [&] { return static_cast<std::int32_t>(random() % static_cast<unsigned>(rows)); };
    for (std::int64_t i = 0; i < tokens * pairs; ++i) {
      const bool missing = random() % 7 == 0 || i / pairs == 3;
      source.push_back(missing ? -1 : any_row());
      destination.push_back(missing && i % 2 == 0 ? -5 : any_row());  // ignored where the source is missing
    }
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::size_t count = t % 5 == 1 ? 0 : random() % 9;
      for (std::size_t i = 0; i < count; ++i) ids.push_back(any_row());
      offsets.push_back(std::ssize(ids));
    }
  }

  TokenPairs pairs() const {
    return {.source_TM = source.data(),
            .destination_TM = destination.data(),
            .tokens = hidden.rows,
            .per_token = per_token};
  }
  TokenIds lists() const { return {offsets, ids}; }

  double dot(std::int64_t t, std::int64_t row) const {
    double sum = 0;
    for (std::int64_t i = 0; i < hidden.width; ++i) sum += hidden.at(t, i) * weight.at(row, i);
    return sum;
  }

  ExactHeadAnswers no_answers() const {
    return {.values = {},
            .grad_hidden = std::vector<double>(static_cast<std::size_t>(hidden.rows * hidden.width)),
            .grad_weight = std::vector<double>(static_cast<std::size_t>(weight.rows * hidden.width))};
  }
  void add_visit(ExactHeadAnswers& to, std::int64_t t, std::int64_t row, double slope) const {
    for (std::int64_t i = 0; i < hidden.width; ++i) {
      to.grad_hidden[static_cast<std::size_t>(t * hidden.width + i)] += slope * weight.at(row, i);
      to.grad_weight[static_cast<std::size_t>(row * hidden.width + i)] += slope * hidden.at(t, i);
    }
  }

  ExactHeadAnswers pairs_by_loop() const {
    ExactHeadAnswers answers = no_answers();
    for (std::size_t at = 0; at < source.size(); ++at) {
      const auto t = static_cast<std::int64_t>(at) / per_token;
      const std::size_t i = at % static_cast<std::size_t>(per_token);
      answers.values.push_back(source[at] < 0 ? 0 : dot(t, destination[at]) - dot(t, source[at]));
      if (source[at] < 0) continue;
      const double slope = slope_of(t, i, answers.values.back());
      answers.loss += slope * slope / 2;
      add_visit(answers, t, destination[at], slope);
      add_visit(answers, t, source[at], -slope);
    }
    return answers;
  }

  ExactHeadAnswers lists_by_loop() const {
    ExactHeadAnswers answers = no_answers();
    for (std::int64_t t = 0; t < hidden.rows; ++t) {
      const std::int64_t begin = offsets[static_cast<std::size_t>(t)],
                         end = offsets[static_cast<std::size_t>(t) + 1];
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int32_t id = ids[static_cast<std::size_t>(at)];
        answers.values.push_back(dot(t, id));
        const double slope = slope_of(t, static_cast<std::size_t>(at - begin), answers.values.back());
        answers.loss += slope * slope / 2;
        add_visit(answers, t, id, slope);
      }
    }
    return answers;
  }

  HeadAnswers empty_answers(std::size_t values) const {
    return {.values = std::vector<float>(values, 9),
            .grad_hidden = std::vector<float>(static_cast<std::size_t>(hidden.rows * hidden.width), 9),
            .grad_weight = std::vector<float>(static_cast<std::size_t>(weight.rows * hidden.width), 0)};
  }

  // The loss answers NaN for missing pairs, which must not matter, and is not asked about tokens without any.
  HeadAnswers by_pair_head(const ParallelFor& parallel) const {
    const TokenLoss loss = [&](std::int64_t t, std::span<const float> values, std::span<float> grad) {
      std::vector<float> present(values.begin(), values.end());
      double sum = quadratic_loss(t, present, grad);
      bool any = false;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (source[static_cast<std::size_t>(t * per_token) + i] >= 0) {
          any = true;
          continue;
        }
        sum -= slope_of(t, i, 0) * slope_of(t, i, 0) / 2;
        grad[i] = std::nanf("");
      }
      EXPECT_TRUE(any) << "the loss was asked about token " << t << ", which has no pair";
      return sum;
    };
    HeadAnswers answers = empty_answers(source.size());
    pair_log_odds(hidden.view(), weight.view(), pairs(), parallel, answers.values.data());
    RowGradient gradient(answers.grad_weight.data(), weight.rows, hidden.width);
    answers.loss = pair_head_step(hidden.view(), weight.view(), pairs(), loss, parallel,
                                  answers.grad_hidden.data(), gradient);
    return answers;
  }

  HeadAnswers by_gather_head(const ParallelFor& parallel) const {
    const TokenLoss loss = [](std::int64_t t, std::span<const float> values, std::span<float> grad) {
      EXPECT_FALSE(values.empty()) << "the loss was asked about token " << t << ", which has no ids";
      return quadratic_loss(t, values, grad);
    };
    HeadAnswers answers = empty_answers(ids.size());
    gather_logits(hidden.view(), weight.view(), lists(), parallel, answers.values.data());
    RowGradient gradient(answers.grad_weight.data(), weight.rows, hidden.width);
    answers.loss = gather_head_step(hidden.view(), weight.view(), lists(), loss, parallel,
                                    answers.grad_hidden.data(), gradient);
    return answers;
  }
};

TEST(SparseHeads, EqualPlainLoopsOnEveryTarget) {
  for (const std::int64_t width : {1, 7, 33, 64, 100, 576}) {
    for (const std::int64_t pairs : {1, 2, 5}) {
      for (const RowType hidden_type : kRowTypes) {
        for (const RowType weight_type : kRowTypes) {
          const std::int64_t gap = pairs == 2 ? 3 : 0;
          SCOPED_TRACE(::testing::Message() << "H " << width << ", M " << pairs << ", gap " << gap);
          const HeadProblem problem(20, width, 23, pairs, hidden_type, weight_type, gap);
          const ExactHeadAnswers of_pairs = problem.pairs_by_loop(), of_lists = problem.lists_by_loop();
          for_each_target([&] {
            expect_close(problem.by_pair_head({}), of_pairs, 3e-5);
            expect_close(problem.by_gather_head({}), of_lists, 3e-5);
          });
        }
      }
    }
  }
}

// Infinities, NaN and subnormals of float16 are what they are in vectors and in what remains of a row.
TEST(SparseHeads, KnowTheSpecialValuesOfFloat16) {
  constexpr std::int64_t kWidth = 71;
  TestMatrix hidden(1, kWidth, RowType::kFloat16, 1), weight(5, kWidth, RowType::kFloat16, 2);
  std::fill(hidden.floats.begin(), hidden.floats.end(), 1.0F);
  std::fill(weight.floats.begin(), weight.floats.end(), 0x1p-24F);
  for (const std::int64_t at : {std::int64_t{3}, std::int64_t{66}, kWidth - 1}) {
    for (std::int64_t row = 1; row < 5; ++row) {
      const float value[] = {0, HUGE_VALF, -HUGE_VALF, std::nanf(""), 65504};
      weight.floats[static_cast<std::size_t>(row * kWidth + at)] = value[row];
    }
    hidden.fill_halves();
    weight.fill_halves();
    for_each_target([&] {
      const std::int32_t ids[] = {0, 1, 2, 3, 4};
      float logits[5];
      row_dots(hidden.view(), 0, weight.view(), ids, 5, 0, logits);
      EXPECT_EQ(logits[0], static_cast<float>(kWidth) * 0x1p-24F);
      EXPECT_EQ(logits[1], HUGE_VALF);
      EXPECT_EQ(logits[2], -HUGE_VALF);
      EXPECT_TRUE(std::isnan(logits[3]));
      EXPECT_EQ(logits[4], 65504.0F);
    });
    std::fill(weight.floats.begin(), weight.floats.end(), 0x1p-24F);
  }
}

// More tokens than are added to the weight's gradient at a time.
TEST(SparseHeads, GiveTheSameBitsForAnyNumberOfThreads) {
  const HeadProblem problem(4500, 40, 300, 3, RowType::kFloat32, RowType::kBFloat16);
  const HeadAnswers of_pairs = problem.by_pair_head({}), of_lists = problem.by_gather_head({});
  expect_close(of_pairs, problem.pairs_by_loop(), 2e-3);  // a row has some 80 visits
  expect_close(of_lists, problem.lists_by_loop(), 2e-3);
  for (const int threads : {2, 3, 8}) {
    EXPECT_EQ(problem.by_pair_head(in_threads(threads)), of_pairs) << threads;
    EXPECT_EQ(problem.by_gather_head(in_threads(threads)), of_lists) << threads;
  }
}

TEST(SparseHeads, TakeNoTokensAndNoPairs) {
  for (const std::int64_t tokens : {0, 3}) {
    const HeadProblem problem(tokens, 5, 4, 0, RowType::kFloat32, RowType::kFloat32);
    const HeadAnswers answers = problem.by_pair_head({});
    EXPECT_EQ(answers.loss, 0);
    EXPECT_EQ(answers.grad_hidden, std::vector<float>(answers.grad_hidden.size(), 0.0F));
    EXPECT_EQ(answers.grad_weight, std::vector<float>(answers.grad_weight.size(), 0.0F));
  }
  const HeadProblem none(0, 5, 4, 2, RowType::kFloat32, RowType::kFloat32);
  EXPECT_EQ(none.by_gather_head(in_threads(2)).loss, 0);
}

TEST(SparseHeads, UseTheThreadsTheyAreGiven) {
  const HeadProblem problem(400, 16, 50, 2, RowType::kFloat32, RowType::kFloat32);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const TokenLoss loss = [&](std::int64_t t, std::span<const float> values, std::span<float> grad) {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
    return quadratic_loss(t, values, grad);
  };
  HeadAnswers answers = problem.empty_answers(0);
  RowGradient gradient(answers.grad_weight.data(), 50, 16);
  pair_head_step(problem.hidden.view(), problem.weight.view(), problem.pairs(), loss, in_threads(3),
                 answers.grad_hidden.data(), gradient);
  EXPECT_EQ(seen.size(), 3U);
  seen.clear();
  gather_head_step(problem.hidden.view(), problem.weight.view(), problem.lists(), loss, in_threads(2),
                   answers.grad_hidden.data(), gradient);
  EXPECT_EQ(seen.size(), 2U);
}

}  // namespace
}  // namespace routeopd::kernels::testing
