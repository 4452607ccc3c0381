// The tables of python_unicode.h, written by scripts/make_python_tables.py. Rows are in ascending order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace routeopd::python {

struct Run {  // first, first + step, …, last
  char32_t first;
  char32_t last;
  char32_t step;
};

struct MappedRun {  // each point of the run maps to itself + change
  char32_t first;
  char32_t last;
  char32_t step;
  std::int32_t change;
};

struct LongMapping {  // to two or three code points; the third is 0 where there are two
  char32_t from;
  std::array<char32_t, 3> to;
};

extern const std::span<const Run> kPrintable, kAlpha, kDecimal, kDigit, kNumeric;
extern const std::span<const Run> kUpper, kLower, kTitle, kCaseIgnorable;
extern const std::span<const MappedRun> kToUpper, kToLower, kToTitle;  // kToTitle: where it is not kToUpper
extern const std::span<const LongMapping> kToUpperLong, kToLowerLong, kToTitleLong;

}  // namespace routeopd::python
