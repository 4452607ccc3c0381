// SHA-256 against the standard's examples, and the processor's instructions against the plain rounds.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/hashes.h"

#include <gtest/gtest.h>

namespace routeopd {
namespace {

TEST(Sha256, KnownAnswers) {  // FIPS 180-4's examples
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, FastEqualsPlainAtEveryLength) {
  std::string text;
  for (int length = 0; length < 300; ++length) {
    EXPECT_EQ(sha256(text), sha256_plain(text)) << length;
    text += static_cast<char>(length * 37 + 11);
  }
}

}  // namespace
}  // namespace routeopd
