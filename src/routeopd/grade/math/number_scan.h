// A number as people write it: 1,234.50  1{,}234  1,\!234  1\,234  1 234  .5  0.\overline{3}  1.5e-3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmpxx.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace routeopd::grade::math {

mpz_class ten_to(std::size_t exponent);  // 10^exponent

struct ScannedNumber {
  std::string digits{};  // without separators, as in a number of another base
  mpq_class value{};
  int places = -1;         // after the decimal point; -1 without one, and where digits recur
  std::size_t length = 0;  // characters taken
  bool ambiguous = false;  // a bare comma stood where it could group digits
};

// `text` begins with a digit, or a point and a digit. Bare commas group digits when `commas_group`.
ScannedNumber scan_number(std::string_view text, bool commas_group);

}  // namespace routeopd::grade::math
