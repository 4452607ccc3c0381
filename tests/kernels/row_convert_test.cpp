// Elements of 16 bits against their definition in double precision: all of them widened, and rounded from
// every value between neighbours that matters, on every instruction set.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/row_convert.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel_testing.h"

namespace routeopd::kernels::testing {
namespace {

// A type of 16 bits by its definition: sign, exponent, fraction.
struct NarrowType {
  RowType type;
  int fraction_bits;
  int bias;

  int largest_exponent() const { return (1 << (15 - fraction_bits)) - 1; }  // of infinities and NaN
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(largest_exponent() << fraction_bits); }

  double value(std::uint16_t bits) const {
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const int exponent = bits >> fraction_bits & largest_exponent();
    double size = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    if (exponent == 0) size = std::ldexp(fraction, 1 - bias - fraction_bits);
    if (exponent == largest_exponent()) size = fraction == 0 ? HUGE_VAL : std::nan("");
    return (bits & 0x8000) != 0 ? -size : size;
  }

  // The nearest value, of two the one whose fraction is even; one past the largest finite one is infinite.
  std::uint16_t nearest(float x) const {
    const int sign = std::signbit(x) ? 0x8000 : 0;
    const double size = std::abs(static_cast<double>(x));
    int low = 0, high = infinity();  // values in order; a number is at or above low and below high
    if (size >= std::ldexp(1.0, largest_exponent() - bias)) return static_cast<std::uint16_t>(sign | high);
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (value(static_cast<std::uint16_t>(middle)) <= size ? low : high) = middle;
    }
    const double below = value(static_cast<std::uint16_t>(low));
    const double above = high == infinity() ? std::ldexp(1.0, largest_exponent() - bias)
                                            : value(static_cast<std::uint16_t>(high));
    const bool up = size - below > above - size || (size - below == above - size && low % 2 == 1);
    return static_cast<std::uint16_t>(sign | (up ? high : low));
  }
};

const NarrowType kNarrowTypes[] = {{RowType::kBFloat16, 7, 127}, {RowType::kFloat16, 10, 15}};

TEST(RowConvert, WidensEveryElementOnEveryTarget) {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const NarrowType& narrow : kNarrowTypes) {
    const RowMatrix row{.data = all.data(), .width = 1 << 16, .stride = 1 << 16, .type = narrow.type};
    for_each_target([&] {
      std::vector<float> wide(all.size());
      widen_row(row, 0, wide.data());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const double expected = narrow.value(all[i]);
        const float one = narrow.type == RowType::kFloat16 ? widen(Float16{all[i]}) : widen(BFloat16{all[i]});
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(one)) << i;
        } else {
          ASSERT_EQ(static_cast<double>(wide[i]), expected) << i;
          ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(one)) << i;
          ASSERT_EQ(std::signbit(wide[i]), i >= 0x8000) << i;
        }
      }
    });
  }
}

// Each element, the point halfway to the next, their neighbours in float32, and random bits.
std::vector<float> values_to_round(const NarrowType& narrow) {
  std::vector<float> values;
  for (int bits = 0; bits < narrow.infinity(); ++bits) {
    const double here = narrow.value(static_cast<std::uint16_t>(bits));
    const double next = bits + 1 == narrow.infinity()
                            ? std::ldexp(1.0, narrow.largest_exponent() - narrow.bias)
                            : narrow.value(static_cast<std::uint16_t>(bits + 1));
    for (const double value : {here, (here + next) / 2}) {
      const auto x = static_cast<float>(value);
      values.insert(values.end(), {x, std::nextafter(x, HUGE_VALF), -std::nextafter(x, 0.0F)});
    }
  }
  std::mt19937 random(4);
  for (int i = 0; i < 100000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const std::uint32_t bits :
       {0x7f800001U, 0x7f801fffU, 0x7fbfffffU, 0x7fffffffU})  // NaN beside infinity
    for (const std::uint32_t sign : {0U, 0x80000000U}) values.push_back(std::bit_cast<float>(sign | bits));
  values.insert(values.end(), {0.0F, -0.0F, HUGE_VALF, -HUGE_VALF, std::nanf(""), -std::nanf("1"),
                               std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()});
  return values;
}

TEST(RowConvert, RoundsToTheNearestOnEveryTarget) {
  for (const NarrowType& narrow : kNarrowTypes) {
    const std::vector<float> values = values_to_round(narrow);
    std::vector<std::uint16_t> expected;
    for (const float value : values) expected.push_back(std::isnan(value) ? 0 : narrow.nearest(value));
    for_each_target([&] {
      std::vector<std::uint16_t> rounded(values.size());
      round_row(values.data(), std::ssize(values), narrow.type, rounded.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint16_t one =
            narrow.type == RowType::kFloat16 ? to_float16(values[i]).bits : to_bfloat16(values[i]).bits;
        ASSERT_EQ(rounded[i], one) << values[i];
        if (std::isnan(values[i])) {
          ASSERT_TRUE(std::isnan(narrow.value(one)));
          ASSERT_EQ(std::signbit(values[i]), one >= 0x8000);
        } else {
          ASSERT_EQ(one, expected[i]) << values[i];
        }
      }
    });
  }
}

TEST(RowConvert, StaysInsideTheRow) {
  const std::vector<float> values = random_floats(80, 5);
  for_each_target([&] {
    for (std::int64_t count = 0; count < 80; ++count) {
      for (const RowType type : kRowTypes) {
        const auto size = static_cast<std::size_t>(count);
        std::vector<float> floats(size + 1, 7);
        std::vector<std::uint16_t> halves(size + 1, 7);
        const bool wide = type == RowType::kFloat32;
        void* const to = wide ? static_cast<void*>(floats.data()) : halves.data();
        round_row(values.data(), count, type, to);
        EXPECT_EQ(floats.back(), 7);
        EXPECT_EQ(halves.back(), 7);
        std::vector<float> back(size + 1, 7);
        widen_row({.data = to, .width = count, .stride = count, .type = type}, 0, back.data());
        EXPECT_EQ(back.back(), 7);
        for (std::size_t i = 0; i < size; ++i) {
          const float error = wide ? 0 : type == RowType::kBFloat16 ? 0x1p-8F : 0x1p-11F;
          ASSERT_NEAR(back[i], values[i], error * std::abs(values[i]));
        }
      }
    }
  });
}

}  // namespace
}  // namespace routeopd::kernels::testing
