// The rows of a prompt file: their problems as texts, and which of them are equal. A file is JSONL of {"id"?,
// "problem" | "messages" | "prompt", "answer"?}. Equal rows are found by hashes alone: a file need not fit
// into memory to be searched for what it holds twice.
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

#include "routeopd/formats/json_lines.h"

namespace routeopd::decontamination {

struct ProblemLine {
  std::string id;    // of the file, or the line's place among its problems, from 0
  std::string text;  // the problem or prompt; of messages, those of the user, joined by line feeds
  std::optional<std::string> answer;  // as text; none where it is missing or null
};

class ProblemLines {
 public:
  // Throws UserError when the file cannot be read, or is a stream: it is hashed, and read more than once.
  explicit ProblemLines(const std::string& path);

  // The next problem. Throws UserError that names the line for one that is broken or has no text to compare.
  std::optional<ProblemLine> next();

  const std::string& line() const { return lines_.text(); }  // as in the file, without its line feed
  std::int64_t count() const { return count_; }              // problems so far
  std::int64_t bytes_read() const { return lines_.bytes_read(); }
  std::int64_t bytes_total() const { return lines_.bytes_total(); }

 private:
  formats::JsonLines lines_;
  std::int64_t count_ = 0;
};

// The first 128 bits of a text's SHA-256. Two texts with one digest do not occur by chance, and making a pair
// of them takes about 2^64 hashes.
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
  // The next row; returns its group. A row without an answer conflicts with none.
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
