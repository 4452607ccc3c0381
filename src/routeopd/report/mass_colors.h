// The colours of mismatch mass: one ramp from blue over grey to yellow, as cividis has it. Its lightness is
// ordered and its hues are told apart with any kind of colour blindness. On a dark ground more mass is
// lighter, on a light ground darker, so that the eye goes to the most.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace routeopd::report {

struct Rgb {
  std::uint8_t red, green, blue;
};

struct MassLevel {
  double from;            // the least mass of this level
  std::uint8_t terminal;  // background, of the 256 colours
  Rgb light, dark;        // background on a page of either kind
};

// Under the first level a token has no colour. Levels are narrow where most tokens of a fair student are.
inline constexpr std::array<MassLevel, 6> kMassLevels = {
    {{0.02, 17, {0xFB, 0xF3, 0xC4}, {0x12, 0x2C, 0x5C}},
     {0.05, 60, {0xEC, 0xD8, 0x78}, {0x46, 0x50, 0x6C}},
     {0.1, 102, {0xC9, 0xB8, 0x64}, {0x6B, 0x6D, 0x73}},
     {0.2, 144, {0x9A, 0x91, 0x76}, {0x9A, 0x91, 0x76}},
     {0.4, 185, {0x62, 0x66, 0x70}, {0xCD, 0xBB, 0x62}},
     {0.7, 227, {0x12, 0x2C, 0x5C}, {0xFE, 0xE8, 0x38}}}};

// 0: no colour; n: kMassLevels[n - 1].
int mass_level(double mass);

// "0.05-0.1"; "< 0.02" for 0.
std::string level_name(int level);

// Relative luminance and contrast ratio as WCAG 2 defines them.
double luminance(Rgb color);
double contrast(Rgb a, Rgb b);

// Black or white, whichever reads better on this background.
Rgb text_on(Rgb background);

// A colour of the 6 x 6 x 6 cube (16 to 231).
Rgb terminal_rgb(std::uint8_t index);

// "#rrggbb".
std::string css(Rgb color);

}  // namespace routeopd::report
