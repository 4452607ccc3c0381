//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/decontamination/row_groups.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"

namespace routeopd::decontamination {

Digest digest_of(std::string_view text) {
  constexpr std::size_t kDigits = 16;  // of 64 bits
  const std::string hexadecimal = sha256(text);
  Digest digest;
  for (std::size_t i = 0; i < digest.bits.size(); ++i) {
    const char* const first = hexadecimal.data() + i * kDigits;
    std::from_chars(first, first + kDigits, digest.bits[i], 16);
  }
  return digest;
}

std::uint32_t RowGroups::add(const Digest& digest, const std::optional<std::string>& answer) {
  if (groups_.size() == std::numeric_limits<std::uint32_t>::max())
    throw UserError("more than {} different rows; check a part of the file at a time", groups_.size());
  const auto [found, is_new] = group_of_.emplace(digest, static_cast<std::uint32_t>(groups_.size()));
  if (is_new) groups_.push_back({.first_row = rows_, .answer = {}, .conflicting = false});
  ++rows_;
  Group& group = groups_[found->second];
  if (answer) {
    const Digest said = digest_of(*answer);
    if (!group.answer) group.answer = said;
    group.conflicting = group.conflicting || *group.answer != said;
  }
  return found->second;
}

std::int64_t RowGroups::conflicts() const {
  return std::count_if(groups_.begin(), groups_.end(), [](const Group& group) { return group.conflicting; });
}

}  // namespace routeopd::decontamination
