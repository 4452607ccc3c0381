// The generator's known answers, and its addresses.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/philox.h"

#include <gtest/gtest.h>

#include <set>

#include "routeopd/base/error.h"

namespace routeopd {
namespace {

TEST(Philox, KnownAnswers) {  // Random123's kat_vectors for philox4x32-10
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, ones, ones),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AddressFillsTheCounterAsDocumented) {
  const std::uint64_t seed = 0x0123456789abcdef;
  const StateAddress at{.step = 7, .prompt = 0xabcdef, .response = 0x12, .position = 99};
  EXPECT_EQ(addressed_words(seed, Purpose::kRoutePairs, at, 5),
            philox4x32({2U << 24 | 5, 7, 0xabcdef12, 99}, 0x89abcdef, 0x01234567));
}

TEST(Philox, EveryFieldMatters) {
  std::set<PhiloxBlock> blocks;
  const StateAddress at{1, 2, 3, 4};
  blocks.insert(addressed_words(1, Purpose::kDecode, at, 0));
  blocks.insert(addressed_words(2, Purpose::kDecode, at, 0));
  blocks.insert(addressed_words(1, Purpose::kProbe, at, 0));
  blocks.insert(addressed_words(1, Purpose::kDecode, at, 1));
  blocks.insert(addressed_words(1, Purpose::kDecode, {2, 2, 3, 4}, 0));
  blocks.insert(addressed_words(1, Purpose::kDecode, {1, 3, 3, 4}, 0));
  blocks.insert(addressed_words(1, Purpose::kDecode, {1, 2, 4, 4}, 0));
  blocks.insert(addressed_words(1, Purpose::kDecode, {1, 2, 3, 5}, 0));
  EXPECT_EQ(blocks.size(), 8U);
}

TEST(Philox, UniformIsTheTopTwentyFourBits) {
  EXPECT_EQ(unit_uniform(0), 0.0F);
  EXPECT_EQ(unit_uniform(0xff), 0.0F);
  EXPECT_EQ(unit_uniform(0x100), 0x1p-24F);
  EXPECT_EQ(unit_uniform(0xffffffff), 1.0F - 0x1p-24F);
}

TEST(Philox, AddressesOutOfRangeAreRefused) {
  EXPECT_NO_THROW(check_address({0xffffffff, (1U << 24) - 1, 255, 0xffffffff}));
  EXPECT_THROW(check_address({.prompt = 1U << 24}), UserError);
  EXPECT_THROW(check_address({.response = 256}), UserError);
}

}  // namespace
}  // namespace routeopd
