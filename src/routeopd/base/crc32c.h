// CRC-32C (Castagnoli; RFC 3720, appendix B.4), the checksum of record files.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace routeopd {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace routeopd
