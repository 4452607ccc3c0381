// Whole numbers for people: 134515008 as 134,515,008.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>

namespace routeopd {

inline std::string grouped(std::integral auto number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace routeopd
