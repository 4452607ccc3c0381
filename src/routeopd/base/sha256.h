// SHA-256 (FIPS 180-4), to name files by their contents.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace routeopd {

std::string sha256(std::string_view bytes);  // 64 hexadecimal digits

// The same without the processor's instructions for it, which the other is held to.
std::string sha256_plain(std::string_view bytes);

// Throws UserError when the file cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace routeopd
