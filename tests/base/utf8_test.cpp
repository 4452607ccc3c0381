// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/utf8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace routeopd {
namespace {

TEST(Utf8Head, IsTheLongestPrefixOfWholeCharacters) {
  const std::string text = "a\u00e9\u20ac\U0001f600b";  // of 1, 2, 3, 4 and 1 bytes
  for (std::size_t bytes = 0; bytes <= text.size() + 1; ++bytes) {
    std::size_t longest = std::min(bytes, text.size());
    while (!is_utf8(text.substr(0, longest))) --longest;
    EXPECT_EQ(utf8_head(text, bytes), text.substr(0, longest)) << bytes;
  }
}

}  // namespace
}  // namespace routeopd
