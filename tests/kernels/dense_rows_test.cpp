// The arithmetic on whole rows of logits, and the small steps of a decoder, against plain loops in double
// precision on every instruction set: lengths around vectors and blocks of sums, ids at -inf, NaN.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/dense_rows.h"

#include <cmath>
#include <limits>

#include "kernels/kernel_testing.h"
#include "routeopd/kernels/token_rows.h"

namespace routeopd::kernels::testing {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kLogFloor = -18.4F;

std::vector<double> log_softmax(std::span<const float> logits) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const float logit : logits) top = std::max(top, static_cast<double>(logit));
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  std::vector<double> log_p;
  for (const float logit : logits) log_p.push_back(static_cast<double>(logit) - top - std::log(sum));
  return log_p;
}

struct LossAndSlopes {
  double loss = 0;
  std::vector<double> slopes;
};

LossAndSlopes reverse_kl_by_loop(std::span<const float> logits, std::span<const float> teacher,
                                 double scale) {
  const std::vector<double> log_p = log_softmax(logits), log_t = log_softmax(teacher);
  const auto ratio = [&](std::size_t i) {
    return log_p[i] - (teacher[i] == kNone ? static_cast<double>(kLogFloor) : log_t[i]);
  };
  LossAndSlopes result;
  for (std::size_t i = 0; i < log_p.size(); ++i)
    if (logits[i] != kNone) result.loss += std::exp(log_p[i]) * ratio(i);
  for (std::size_t i = 0; i < log_p.size(); ++i)
    result.slopes.push_back(logits[i] == kNone ? 0 : scale * std::exp(log_p[i]) * (ratio(i) - result.loss));
  result.loss *= scale;
  return result;
}

LossAndSlopes forward_kl_by_loop(std::span<const float> logits, std::span<const float> teacher,
                                 double scale) {
  const std::vector<double> log_p = log_softmax(logits), log_t = log_softmax(teacher);
  LossAndSlopes result;
  double mass = 0;  // of the teacher, on the ids that take part
  for (std::size_t i = 0; i < log_p.size(); ++i) {
    if (logits[i] == kNone || teacher[i] == kNone) continue;
    mass += std::exp(log_t[i]);
    result.loss += scale * std::exp(log_t[i]) * (log_t[i] - log_p[i]);
  }
  for (std::size_t i = 0; i < log_p.size(); ++i)
    result.slopes.push_back(logits[i] == kNone ? 0
                                               : scale * (mass * std::exp(log_p[i]) - std::exp(log_t[i])));
  return result;
}

// Logits around 20, so that a sum of float32 exponentials without their maximum would overflow its precision;
// some at -inf in either model.
struct TwoModels {
  std::vector<float> student, teacher;

  explicit TwoModels(std::int64_t ids)
      : student(random_floats(ids, 1, 3)), teacher(random_floats(ids, 2, 3)) {
    for (std::size_t i = 0; i < student.size(); ++i) {
      student[i] = i % 11 == 5 ? kNone : student[i] + 20;
      teacher[i] = i % 7 == 3 ? kNone : teacher[i] - 20;
    }
  }
};

TEST(DenseRows, EqualPlainLoopsOnEveryTarget) {
  for (const std::int64_t ids : {1, 2, 15, 17, 100, 2048, 2049, 5003}) {
    SCOPED_TRACE(ids);
    const TwoModels models(ids);
    const double scale = 0.25;
    const LossAndSlopes reverse = reverse_kl_by_loop(models.student, models.teacher, scale);
    const LossAndSlopes forward = forward_kl_by_loop(models.student, models.teacher, scale);
    const std::vector<double> log_p = log_softmax(models.student);
    std::int64_t at_floor = 0;
    for (std::size_t i = 0; i < models.student.size(); ++i)
      at_floor += models.teacher[i] == kNone && models.student[i] != kNone ? 1 : 0;
    for_each_target([&] {
      std::vector<float> row = models.student;
      const RowLse lse = row_logsumexp(row);
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] != kNone) {
          ASSERT_NEAR(lse.log_prob(row[i]), log_p[i], 1e-6);
        }
      }
      row_softmax(row, lse, -2);
      for (std::size_t i = 0; i < row.size(); ++i) ASSERT_NEAR(row[i], -2 * std::exp(log_p[i]), 1e-6);

      row = models.student;
      std::int64_t floored = 0;
      EXPECT_NEAR(row_reverse_kl(row, models.teacher, kLogFloor, scale, &floored), reverse.loss, 1e-5);
      EXPECT_LE(largest_difference(row, reverse.slopes), 2e-6);
      EXPECT_EQ(floored, at_floor);

      row = models.student;
      EXPECT_NEAR(row_forward_kl(row, models.teacher, scale), forward.loss, 1e-5);
      EXPECT_LE(largest_difference(row, forward.slopes), 2e-6);
    });
  }
}

TEST(DenseRows, LogSumExpTellsRowsThatCannotBeUsed) {
  for_each_target([] {
    for (const std::size_t at : {0, 7, 40}) {
      std::vector<float> row(41, 1.0F);
      row[at] = std::nanf("");
      EXPECT_TRUE(std::isnan(row_logsumexp(row).top));
      row[at] = std::numeric_limits<float>::infinity();
      EXPECT_TRUE(std::isnan(row_logsumexp(row).top));
    }
    EXPECT_EQ(row_logsumexp(std::vector<float>(41, kNone)).top, kNone);
  });
}

TEST(TokenRows, EqualPlainLoopsOnEveryTarget) {
  for (const std::int64_t size : {1, 2, 15, 16, 33, 130}) {
    SCOPED_TRACE(size);
    const std::vector<float> x = random_floats(size, 1), weight = random_floats(size, 2);
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(size) + 1e-5);
    std::vector<double> normed;
    for (std::size_t i = 0; i < x.size(); ++i)
      normed.push_back(static_cast<double>(x[i]) * scale * static_cast<double>(weight[i]));

    const std::vector<float> cosine = random_floats(size, 3), sine = random_floats(size, 4),
                             head = random_floats(2 * size, 5);
    std::vector<double> turned(head.size());
    for (std::size_t e = 0; e < cosine.size(); ++e) {
      const double first = static_cast<double>(head[e]),
                   second = static_cast<double>(head[e + cosine.size()]);
      turned[e] = 0.5 * (first * static_cast<double>(cosine[e]) - second * static_cast<double>(sine[e]));
      turned[e + cosine.size()] =
          0.5 * (second * static_cast<double>(cosine[e]) + first * static_cast<double>(sine[e]));
    }
    for_each_target([&] {
      std::vector<float> y(x.size());
      rms_norm_row(x.data(), weight.data(), size, 1e-5F, y.data());
      EXPECT_LE(largest_difference(y, normed), 5e-6);
      y = x;
      rms_norm_row(y.data(), weight.data(), size, 1e-5F, y.data());  // in place
      EXPECT_LE(largest_difference(y, normed), 5e-6);
      y = head;
      rotate_head(y.data(), cosine.data(), sine.data(), size, 0.5F);
      EXPECT_LE(largest_difference(y, turned), 2e-6);
    });
  }
}

}  // namespace
}  // namespace routeopd::kernels::testing
