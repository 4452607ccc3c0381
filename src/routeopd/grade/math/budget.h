// The bounds that keep one comparison cheap whatever the answers hold. The longest gold of MATH500 has 57
// characters; every bound leaves real answers a factor of ten or more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace routeopd::grade::math {

// Longer text is not read as mathematics but compared as text: parsing cost is linear, comparing is not.
inline constexpr std::size_t kLongestMath = 4096;
// Of nested brackets, and of the tree. Parsing, comparing and freeing recurse; 64 levels take well under 100
// kB of stack, instrumented builds included.
inline constexpr int kDeepest = 64;
inline constexpr int kMostNodes = 4096;
// Of a rational's numerator or denominator: 4,932 decimal
// digits, more than a text of kLongestMath can spell out.
inline constexpr std::size_t kMostBits = std::size_t{1} << 14;
// n! and C(n, k) up to here stay below kMostBits.
inline constexpr unsigned long kLargestFactorial = 1000;
// Terms of a polynomial: (a + b + c)^20 has 231.
inline constexpr std::size_t kMostTerms = 512;
inline constexpr int kLargestExponent = 512;
// MPFR: bits of the mantissa, and of the exponent of any value met. Beyond the second a value is unknown: the
// argument of a sine of 2^(10^9) bits would take gigabytes to reduce.
inline constexpr int kPrecision = 256;
// What agrees is looked at once more with this many bits: 2^1000 + 3 and 2^1000 + 5 agree in 256.
inline constexpr int kSecondPrecision = 4096;
inline constexpr int kMostExponent = 1 << 15;

// Steps that one comparison may still take: a step is the work on one node or on one term, one to five
// microseconds, so that all of them take half a second at worst. Deterministic, unlike a clock.
class Budget {
 public:
  explicit Budget(std::int64_t steps = 100'000) : left_(steps) {}

  // Whether `steps` more may be taken; once refused, everything later is refused too.
  bool spend(std::int64_t steps = 1) {
    if (left_ < steps) left_ = 0;
    if (left_ == 0) return false;
    left_ -= steps;
    return true;
  }
  std::int64_t left() const { return left_; }

 private:
  std::int64_t left_;
};

// The part of them that one normal form may take; an expression that needs more is compared by value.
inline constexpr std::int64_t kExactSteps = 10'000;

}  // namespace routeopd::grade::math
