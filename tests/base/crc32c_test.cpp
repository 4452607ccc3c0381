// CRC-32C against the answers of RFC 3720, appendix B.4, and the check value of the catalogues.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/hashes.h"

#include <gtest/gtest.h>

#include <string>

namespace routeopd {
namespace {

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
