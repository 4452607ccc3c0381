// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/mass_colors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace routeopd::report {
namespace {

TEST(MassColors, LevelsBeginAtTheirBounds) {
  EXPECT_EQ(mass_level(0), 0);
  EXPECT_EQ(mass_level(1), static_cast<int>(kMassLevels.size()));
  for (std::size_t i = 0; i < kMassLevels.size(); ++i) {
    EXPECT_EQ(mass_level(kMassLevels[i].from), static_cast<int>(i) + 1);
    EXPECT_EQ(mass_level(std::nextafter(kMassLevels[i].from, 0.0)), static_cast<int>(i));
  }
}

TEST(MassColors, LevelsAreNamedByTheirBounds) {
  EXPECT_EQ(level_name(0), "< 0.02");
  EXPECT_EQ(level_name(2), "0.05-0.1");
  EXPECT_EQ(level_name(static_cast<int>(kMassLevels.size())), "0.7-1");
}

TEST(MassColors, BlackAndWhiteHaveTheContrastThatWcagGivesThem) {
  EXPECT_NEAR(contrast({0, 0, 0}, {255, 255, 255}), 21, 1e-9);
  EXPECT_NEAR(contrast({119, 119, 119}, {255, 255, 255}), 4.48, 0.005) << "WCAG's own example of a near miss";
}

// Order is seen without hues: each level is lighter (or darker) than the one before by a ratio that grey
// paper shows.
TEST(MassColors, LightnessIsOrderedAndTextReadsOnEveryLevel) {
  const auto expect_ordered = [](const std::vector<Rgb>& ramp, bool rising) {
    for (std::size_t i = 0; i < ramp.size(); ++i) {
      EXPECT_GE(contrast(ramp[i], text_on(ramp[i])), 4.5) << css(ramp[i]);
      if (i == 0) continue;
      EXPECT_EQ(luminance(ramp[i]) > luminance(ramp[i - 1]), rising) << css(ramp[i]);
      EXPECT_GE(contrast(ramp[i], ramp[i - 1]), 1.25) << css(ramp[i]);
    }
  };
  std::vector<Rgb> light, dark, terminal;
  for (const MassLevel& level : kMassLevels) {
    light.push_back(level.light);
    dark.push_back(level.dark);
    terminal.push_back(terminal_rgb(level.terminal));
  }
  expect_ordered(light, false);
  expect_ordered(dark, true);
  expect_ordered(terminal, true);
}

TEST(MassColors, TheTerminalsCube) {
  EXPECT_EQ(css(terminal_rgb(16)), "#000000");
  EXPECT_EQ(css(terminal_rgb(208)), "#ff8700");
  EXPECT_EQ(css(terminal_rgb(231)), "#ffffff");
}

}  // namespace
}  // namespace routeopd::report
