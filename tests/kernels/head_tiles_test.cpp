// Rows laid out in panels against pack_panel's layout, and logits made of products against plain loops, on
// every instruction set.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/head_tiles.h"

#include <cmath>

#include "kernels/kernel_testing.h"

namespace routeopd::kernels::testing {
namespace {

TEST(HeadTiles, RowsAreLaidOutInPanelsOnEveryTarget) {
  for (const RowType type : kRowTypes) {
    for (const std::int64_t width : {1, 3, 15, 16, 17, 32, 33, 100}) {
      const TestMatrix weight(50, width, type, 1, 1, width % 2 == 0 ? 3 : 0);
      for (const std::int64_t count : {1, 15, 16, 17, 47}) {
        SCOPED_TRACE(::testing::Message() << count << " rows of " << width);
        for_each_target([&] {
          const std::int64_t size = (count + 15) / 16 * 16 * width;
          const AlignedFloats panels(size + 1);
          std::fill_n(panels.data(), size + 1, -7.0F);
          pack_rows(weight.view(), 3, count, panels.data());
          for (std::int64_t row = 0; row < (count + 15) / 16 * 16; ++row) {
            for (std::int64_t k = 0; k < width; ++k)
              ASSERT_EQ(static_cast<double>(panels.data()[row / 16 * 16 * width + k * 16 + row % 16]),
                        weight.at(3 + std::min(row, count - 1), k));
          }
          ASSERT_EQ(panels.data()[size], -7.0F) << "written past the panels";
        });
      }
    }
  }
}

TEST(HeadTiles, ProductsBecomeLogitsAsInPlainLoops) {
  const std::vector<float> bias = random_floats(60, 2, 3);
  for (const LogitTransform& transform :
       {LogitTransform{.scale = 0.0625F}, LogitTransform{.softcap = 30}, LogitTransform{.bias = bias.data()},
        LogitTransform{.scale = 3, .softcap = 5, .bias = bias.data()}}) {
    for (const std::int64_t width : {1, 15, 16, 17, 50}) {
      const std::vector<float> products = random_floats(3 * (width + 2), 3, 20);
      std::vector<float> expected = products;
      reference_transform_logits(transform, 9, 3, width, width + 2, expected.data());
      for_each_target([&] {
        std::vector<float> got = products;
        transform_logits(transform, 9, 3, width, width + 2, got.data());
        for (std::size_t i = 0; i < got.size(); ++i) {
          // Five units in the last place: four of tanh, one of the quotient before it.
          ASSERT_NEAR(got[i], expected[i], 6e-7 * std::abs(static_cast<double>(expected[i]))) << i;
        }
      });
    }
  }
}

// By its definition, in double precision; the order of bias, scale and cap is that of the models.
TEST(HeadTiles, TheBiasIsScaledAndTheScaledIsCapped) {
  const float bias[] = {1.0F, -2.0F};
  float logits[] = {3.0F, 7.0F};
  transform_logits({.scale = 2, .softcap = 10, .bias = bias}, 0, 1, 2, 2, logits);
  EXPECT_NEAR(logits[0], 10 * std::tanh(2 * (3.0 + 1.0) / 10), 1e-5);
  EXPECT_NEAR(logits[1], 10 * std::tanh(2 * (7.0 - 2.0) / 10), 1e-5);
}

TEST(HeadTiles, CapsKnowEveryValueWhereverItStands) {
  const float values[] = {0.0F,   -0.0F, 1e-30F,    -1e-6F,     0.1F,          29.0F,         -31.0F,
                          400.0F, 3e38F, HUGE_VALF, -HUGE_VALF, std::nanf(""), -std::nanf("")};
  const LogitTransform transform{.scale = 1, .softcap = 30};
  for_each_target([&] {
    for (const float value : values) {
      std::vector<float> row(35, value);  // vectors and what remains
      transform_logits(transform, 0, 1, 35, 35, row.data());
      const double exact = 30 * std::tanh(static_cast<double>(value) / 30);
      for (const float logit : row) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(logit), std::bit_cast<std::uint32_t>(row[0]));
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(logit));
        } else {
          ASSERT_NEAR(logit, exact, 6e-7 * std::abs(exact)) << value;
          ASSERT_LE(std::abs(logit), 30.0F);
        }
      }
    }
  });
}

TEST(HeadTiles, TheIdentityTouchesNothing) {
  std::vector<float> row = {1.0F, -0.0F, std::nanf("7"), HUGE_VALF};
  const std::vector<float> before = row;
  transform_logits({}, 0, 1, 4, 4, row.data());
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(row[i]), std::bit_cast<std::uint32_t>(before[i]));
}

}  // namespace
}  // namespace routeopd::kernels::testing
