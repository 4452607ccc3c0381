// Numbers and text in the form in which a reader sees them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace routeopd {

// Sizes: 24.6 kB, 15.5 MB, 8.0 GB.
std::string byte_text(std::int64_t bytes);

// Whole numbers: 134515008 as 134,515,008.
inline std::string grouped(std::integral auto number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// Text that HTML shows as it is, also inside quotes. The entities are those that Jinja writes.
std::string html_escaped(std::string_view text);

}  // namespace routeopd
