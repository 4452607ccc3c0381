// Sizes as people read them: 24.6 kB, 15.5 MB, 8.0 GB.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace routeopd {

inline std::string byte_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  if (value < 1e6) return fmt::format("{:.1f} kB", value / 1e3);
  return value < 1e9 ? fmt::format("{:.1f} MB", value / 1e6) : fmt::format("{:.1f} GB", value / 1e9);
}

}  // namespace routeopd
