// The row kernel against its reference in plain loops, on every instruction set that this machine has, for
// inputs in friendly and hostile order, with ties, infinities and NaN, whole and in shuffled tiles.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/row_topk.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace routeopd::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Pattern {
  std::string name;
  std::function<float(std::int64_t i, std::int64_t n, std::mt19937& random)> value;
};

float normal(std::mt19937& random) {
  return std::normal_distribution<float>()(random);
}

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = {
      {"random", [](auto, auto, auto& g) { return 3.0F * normal(g); }},
      {"ascending",
       [](auto i, auto n, auto&) { return static_cast<float>(20.0 * double(i) / double(n) - 10.0); }},
      {"descending",
       [](auto i, auto n, auto&) { return static_cast<float>(10.0 - 20.0 * double(i) / double(n)); }},
      {"equal", [](auto, auto, auto&) { return 1.7F; }},
      {"sawtooth", [](auto i, auto, auto&) { return static_cast<float>(i % 1000) * 0.01F; }},
      {"falling sawtooth", [](auto i, auto, auto&) { return static_cast<float>(-(i % 37)) * 0.5F; }},
      {"staircase", [](auto i, auto, auto&) { return static_cast<float>(i / 64) * 0.01F - 5.0F; }},
      {"staircase down", [](auto i, auto, auto&) { return 5.0F - static_cast<float>(i / 100) * 0.01F; }},
      {"few values", [](auto, auto, auto& g) { return static_cast<float>(g() % 5); }},
      {"geometric", [](auto, auto, auto& g) { return static_cast<float>(std::countr_zero(g() | 1U << 20)); }},
      {"some -inf", [](auto, auto, auto& g) { return g() % 3 == 0 ? -kInf : normal(g); }},
      {"mostly -inf", [](auto, auto, auto& g) { return g() % 500 == 0 ? normal(g) : -kInf; }},
      {"all -inf", [](auto, auto, auto&) { return -kInf; }},
      {"both zeros", [](auto, auto, auto& g) { return g() % 2 == 0 ? 0.0F : -0.0F; }},
      {"very low", [](auto, auto, auto& g) { return g() % 2 == 0 ? normal(g) : -1e30F; }},
      {"high", [](auto, auto, auto& g) { return 1000.0F + normal(g); }},
      {"huge", [](auto, auto, auto& g) { return g() % 2 == 0 ? 3e38F : -3e38F; }},
  };
  return all;
}

std::vector<float> make_row(const Pattern& pattern, std::int64_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<float> row(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) row[static_cast<std::size_t>(i)] = pattern.value(i, n, random);
  return row;
}

struct Answer {
  std::vector<float> values;
  std::vector<std::int32_t> ids;
  std::vector<float> lse;
};

using Kernel = decltype(&topk_logsumexp);

Answer answer_of(Kernel kernel, const std::vector<float>& logits, std::int64_t rows, std::int64_t cols,
                 std::int64_t stride, std::int32_t k) {
  const auto size = static_cast<std::size_t>(rows * k);
  Answer answer{std::vector<float>(size), std::vector<std::int32_t>(size),
                std::vector<float>(static_cast<std::size_t>(rows))};
  kernel(logits.data(), rows, cols, stride, k, answer.values.data(), answer.ids.data(), answer.lse.data());
  return answer;
}

double exact_logsumexp(const std::vector<float>& row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const float x : row) sum += std::exp(x - max);
  return max + std::log(sum);
}

// log sum e^y - sum y e^y / sum e^y, y = x - max.
double exact_entropy(const std::vector<float>& row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0, weighted = 0;
  for (const float x : row) {
    const double y = x - max, term = std::exp(y);
    sum += term;
    if (term > 0) weighted += y * term;
  }
  return std::log(sum) - weighted / sum;
}

LogSum scanned(const std::vector<float>& row, bool entropy) {
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(row_topk_capacity(1)));
  RowTopk top(keys.data(), 1);
  LogSum sum;
  row_topk_scan(&top, &sum, row.data(), 1, std::ssize(row), std::ssize(row), 0, entropy);
  return sum;
}

// Runs the test on every instruction set that was compiled and that this processor has.
class RowTopkOnTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
  // Without fused multiply-add, log2(e) x is rounded before its integer part is taken off.
  static double tolerance() { return GetParam() <= HWY_AVX2 ? 5e-7 : 2.5e-6; }
};

TEST_P(RowTopkOnTarget, EqualsTheReferenceInEveryOrderAndSize) {
  for (const Pattern& pattern : patterns()) {
    for (const std::int64_t n : {1, 7, 31, 64, 100, 300, 1023, 4095, 4096, 4097, 49152}) {
      const std::vector<float> row = make_row(pattern, n);
      for (const std::int32_t k : {1, 2, 16, 31, 32, 64, 200}) {
        SCOPED_TRACE(pattern.name + ", n = " + std::to_string(n) + ", k = " + std::to_string(k));
        const Answer expected = answer_of(&reference_topk_logsumexp, row, 1, n, n, k);
        const Answer actual = answer_of(&topk_logsumexp, row, 1, n, n, k);
        ASSERT_EQ(actual.ids, expected.ids);
        ASSERT_EQ(actual.values, expected.values);
        const float ulp = std::nextafter(std::abs(expected.lse[0]), kInf) - std::abs(expected.lse[0]);
        if (std::isinf(expected.lse[0])) {
          ASSERT_EQ(actual.lse[0], expected.lse[0]);
        } else {
          ASSERT_NEAR(actual.lse[0], expected.lse[0], ulp + tolerance());
        }
      }
    }
  }
}

// A short row has few maxima, of which the k-th largest may be none, or so low that every value is a
// candidate. The states have room for all of them, so that what was not dropped on the way is what was
// collected.
TEST_P(RowTopkOnTarget, CollectsFewMoreThanKOfAShortRow) {
  std::mt19937 random(7);
  for (const std::int32_t k : {8, 16, 24, 32, 48, 64}) {
    for (std::int64_t n = k + k / 2; n < row_topk_capacity(k); n += 5) {
      std::vector<float> row(static_cast<std::size_t>(n));
      for (float& value : row) value = normal(random);
      std::vector<std::uint64_t> keys(static_cast<std::size_t>(row_topk_capacity(k)));
      RowTopk top(keys.data(), k);
      LogSum sum;
      row_topk_scan(&top, &sum, row.data(), 1, n, n, 0);
      EXPECT_LE(top.count, k + k / 2) << "k = " << k << ", n = " << n;
    }
  }
}

TEST_P(RowTopkOnTarget, LogSumExpIsAccurateForAWholeVocabulary) {
  const std::vector<Pattern> hard = {
      {"uniform in [-30, 30]",
       [](auto, auto, auto& g) { return std::uniform_real_distribution<float>(-30, 30)(g); }},
      {"normal", [](auto, auto, auto& g) { return normal(g); }},
      {"normal * 6", [](auto, auto, auto& g) { return std::clamp(6.0F * normal(g), -30.0F, 30.0F); }},
      {"equal 29.7", [](auto, auto, auto&) { return 29.7F; }},
      {"equal -29.3", [](auto, auto, auto&) { return -29.3F; }},
      {"one above many", [](auto i, auto, auto&) { return i == 77 ? 30.0F : 18.1F; }},
      {"fine ascending",
       [](auto i, auto n, auto&) { return static_cast<float>(28.0 + double(i) / double(n)); }},
  };
  for (const Pattern& pattern : hard) {
    const std::vector<float> row = make_row(pattern, 151936);
    EXPECT_NEAR(scanned(row, false).log(), exact_logsumexp(row), tolerance()) << pattern.name;
    EXPECT_NEAR(scanned(row, true).entropy(), exact_entropy(row), 4 * tolerance()) << pattern.name;
  }
}

// A term is a probability times a logarithm of up to 12 nats, so that the bound is that of the log-sum-exp a
// few times over; without fused multiply-add the rounding of log2(e) x counts as well. Asking for the entropy
// does not change the log-sum-exp.
TEST_P(RowTopkOnTarget, EntropyEqualsItsDefinition) {
  for (const Pattern& pattern : patterns()) {
    for (const std::int64_t n : {1, 7, 31, 4095, 4096, 4097, 49152}) {
      SCOPED_TRACE(pattern.name + ", n = " + std::to_string(n));
      const std::vector<float> row = make_row(pattern, n);
      const LogSum plain = scanned(row, false), asked = scanned(row, true);
      EXPECT_EQ(plain.scaled, asked.scaled);
      EXPECT_EQ(plain.exponent, asked.exponent);
      const float max = *std::max_element(row.begin(), row.end());
      if (max == -kInf) {
        EXPECT_TRUE(std::isnan(asked.entropy()));
        continue;
      }
      const double rounding = GetParam() <= HWY_AVX2 ? 0 : 0x1p-22 * std::min(std::abs(max), 2000.0F);
      EXPECT_NEAR(asked.entropy(), exact_entropy(row), 4 * tolerance() + rounding);
    }
  }
  for (const float bad : {kNan, kInf}) EXPECT_TRUE(std::isnan(scanned({0.5F, bad, 1.0F}, true).entropy()));
}

TEST_P(RowTopkOnTarget, NanAndPlusInfAreRecognisable) {
  for (const std::int64_t n : {1, 40, 4096, 10000}) {
    for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
      for (const float others : {0.5F, -kInf, 3e38F}) {
        std::vector<float> row(static_cast<std::size_t>(n), others);
        const auto index = static_cast<std::size_t>(at);
        for (const float bad :
             {kNan, -kNan, std::bit_cast<float>(0x7fffffffU), std::bit_cast<float>(0xff800001U), kInf}) {
          row[index] = bad;
          const Answer answer = answer_of(&topk_logsumexp, row, 1, n, n, 33);
          EXPECT_TRUE(bad == kInf ? answer.lse[0] == kInf : std::isnan(answer.lse[0])) << answer.lse[0];
          for (const std::int32_t id : answer.ids) EXPECT_TRUE(id >= -1 && id < n);
        }
        row[index] = kInf;
        row[0] = kNan;
        EXPECT_TRUE(std::isnan(answer_of(&topk_logsumexp, row, 1, n, n, 33).lse[0]));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, RowTopkOnTarget,
                         ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

TEST(RowTopk, TakesTilesInAnyOrderAndMergesStates) {
  std::mt19937 random(5);
  const std::uint64_t guard = 0x5ca1ab1e5ca1ab1eU;
  for (const Pattern& pattern : patterns()) {
    for (const std::int32_t k : {1, 2, 3, 5, 32, 33, 48, 64, 100, 128, 200, 300}) {
      SCOPED_TRACE(pattern.name + ", k = " + std::to_string(k));
      const std::int64_t n = 20000;
      const std::vector<float> row = make_row(pattern, n);
      std::vector<std::int64_t> cuts = {0, n};
      for (int i = 0; i < 9; ++i) cuts.push_back(static_cast<std::int64_t>(random() % 20000U));
      std::sort(cuts.begin(), cuts.end());
      std::vector<std::size_t> order(cuts.size() - 1);
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);

      const auto capacity = static_cast<std::size_t>(row_topk_capacity(k));
      std::vector<std::uint64_t> keys(3 * (capacity + 1), guard);
      std::vector<RowTopk> states;
      for (std::size_t s = 0; s < 3; ++s) states.emplace_back(&keys[s * (capacity + 1)], k);
      LogSum sum;
      for (const std::size_t tile : order) {
        const std::int64_t first = cuts[tile];
        row_topk_scan(&states[random() % 3], &sum, row.data() + first, 1, cuts[tile + 1] - first, n,
                      static_cast<std::int32_t>(first));
      }
      states[1].merge(states[0]);
      states[1].merge(states[2]);
      Answer actual{std::vector<float>(static_cast<std::size_t>(k)),
                    std::vector<std::int32_t>(static_cast<std::size_t>(k)),
                    {}};
      states[1].finish(actual.values.data(), actual.ids.data());
      const Answer expected = answer_of(&reference_topk_logsumexp, row, 1, n, n, k);
      ASSERT_EQ(actual.ids, expected.ids);
      ASSERT_EQ(actual.values, expected.values);
      ASSERT_FLOAT_EQ(static_cast<float>(sum.log()), expected.lse[0]);
      for (std::size_t s = 0; s < 3; ++s) ASSERT_EQ(keys[s * (capacity + 1) + capacity], guard);
    }
  }
}

TEST(RowTopk, RowsHaveAStrideAndDoNotMix) {
  const std::int64_t rows = 5, cols = 300, stride = 311;
  std::vector<float> logits = make_row(patterns()[0], rows * stride);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = cols; c < stride; ++c) logits[static_cast<std::size_t>(r * stride + c)] = 1e9F;
  }
  const Answer expected = answer_of(&reference_topk_logsumexp, logits, rows, cols, stride, 32);
  const Answer actual = answer_of(&topk_logsumexp, logits, rows, cols, stride, 32);
  EXPECT_EQ(actual.ids, expected.ids);
  EXPECT_EQ(actual.values, expected.values);
  for (std::size_t r = 0; r < 5; ++r) EXPECT_NEAR(actual.lse[r], expected.lse[r], 2e-6);
}

TEST(RowTopk, FillsAShortRow) {
  const Answer answer = answer_of(&topk_logsumexp, {2.0F, -kInf, 2.0F}, 1, 3, 3, 5);
  EXPECT_EQ(answer.ids, (std::vector<std::int32_t>{0, 2, 1, -1, -1}));
  EXPECT_EQ(answer.values, (std::vector<float>{2.0F, 2.0F, -kInf, -kInf, -kInf}));
  EXPECT_NEAR(answer.lse[0], 2.0 + std::log(2.0), 1e-6);
}

TEST(RowTopk, AnyKUpToTheRowAndBeyond) {
  const std::vector<float> row = make_row(patterns()[8], 6000);
  for (const std::int32_t k : {255, 256, 257, 1000, 5999, 6000, 7000}) {
    EXPECT_EQ(answer_of(&topk_logsumexp, row, 1, 6000, 6000, k).ids,
              answer_of(&reference_topk_logsumexp, row, 1, 6000, 6000, k).ids);
  }
}

}  // namespace
}  // namespace routeopd::kernels
