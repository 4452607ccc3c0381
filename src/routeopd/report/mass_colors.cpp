// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/mass_colors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace routeopd::report {
namespace {

constexpr Rgb kBlack{0, 0, 0}, kWhite{255, 255, 255};

double linear(std::uint8_t channel) {
  const double c = channel / 255.0;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

}  // namespace

int mass_level(double mass) {
  return static_cast<int>(std::count_if(kMassLevels.begin(), kMassLevels.end(),
                                        [&](const MassLevel& level) { return mass >= level.from; }));
}

std::string level_name(int level) {
  const auto at = static_cast<std::size_t>(level);
  if (level == 0) return fmt::format("< {}", kMassLevels[0].from);
  return fmt::format("{}-{}", kMassLevels[at - 1].from, at < kMassLevels.size() ? kMassLevels[at].from : 1.0);
}

double luminance(Rgb color) {
  return 0.2126 * linear(color.red) + 0.7152 * linear(color.green) + 0.0722 * linear(color.blue);
}

double contrast(Rgb a, Rgb b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

Rgb text_on(Rgb background) {
  return contrast(background, kBlack) >= contrast(background, kWhite) ? kBlack : kWhite;
}

Rgb terminal_rgb(std::uint8_t index) {
  constexpr std::array<std::uint8_t, 6> kSteps = {0, 95, 135, 175, 215, 255};
  const int cube = std::clamp<int>(index, 16, 231) - 16;
  const auto step = [&](int place) { return kSteps[static_cast<std::size_t>(cube / place % 6)]; };
  return {step(36), step(6), step(1)};
}

std::string css(Rgb color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

}  // namespace routeopd::report
