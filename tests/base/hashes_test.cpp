// SHA-256 against the standard's examples, and the processor's instructions against the plain rounds; CRC-32C
// against the answers of RFC 3720, appendix B.4, and the usual check value.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/hashes.h"

#include <gtest/gtest.h>

#include <string>

#include "routeopd/base/error.h"

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

TEST(Sha256, AFileThatCannotBeReadToItsEndHasNone) {
  EXPECT_THROW(sha256_of_file("/proc/self/mem"), UserError);  // its first page is nobody's: EIO
}

TEST(Crc32c, GivesTheKnownAnswers) {
  std::string rising;
  for (char byte = 0; byte < 32; ++byte) rising += byte;
  const std::string falling(rising.rbegin(), rising.rend());
  std::string command(48, '\0');  // the RFC's iSCSI Read (10)
  command[0] = '\x01', command[1] = '\xc0';
  command[16] = '\x14', command[22] = '\x04', command[27] = '\x14', command[31] = '\x18';
  command[32] = '\x28', command[40] = '\x02';

  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cU);
  EXPECT_EQ(crc32c(command), 0xd9963a56U);
  EXPECT_EQ(crc32c(""), 0U);
}

}  // namespace
}  // namespace routeopd
