// Rows that are equal, found by hashes alone: a file need not fit into memory to be searched for what it has twice.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace routeopd::decontamination {

// The first 128 bits of a text's SHA-256. Two texts with one digest have never been seen, and to make a pair of them
// takes about 2^64 hashes.
struct Digest {
  std::array<std::uint64_t, 2> bits{};
  bool operator==(const Digest&) const = default;
};

struct DigestHash {
  std::size_t operator()(const Digest& digest) const { return digest.bits[0]; }
};

Digest digest_of(std::string_view text);

// Groups of rows with the same digest, and whether their answers agree.
class RowGroups {
 public:
  // The next row; returns its group. A row without an answer contradicts nobody.
  std::uint32_t add(const Digest& digest, const std::optional<std::string>& answer);

  std::size_t groups() const { return groups_.size(); }
  std::int64_t conflicts() const;  // groups whose answers differ

  std::size_t first_row(std::uint32_t group) const { return groups_[group].first_row; }
  bool conflicting(std::uint32_t group) const { return groups_[group].conflicting; }

 private:
  struct Group {
    std::size_t first_row = 0;
    std::optional<Digest> answer;
    bool conflicting = false;
  };
  std::unordered_map<Digest, std::uint32_t, DigestHash> group_of_;
  std::vector<Group> groups_;
  std::size_t rows_ = 0;
};

}  // namespace routeopd::decontamination
