// Files of a run or a study as they may lie on a disk: cut by a process that was killed, half-written,
// absent, or made by somebody else. Nothing here throws; what cannot be shown is a sentence that names the
// file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd::report {

// Larger files, longer lines and longer lists than these belong to no study; together they bound what reading
// one may cost.
inline constexpr std::int64_t kMaxFileBytes = 256LL << 20U;
inline constexpr std::int64_t kMaxObjectBytes = 64LL << 20U;
inline constexpr std::int64_t kMaxLineBytes = 4LL << 20U;
inline constexpr std::size_t kMaxLines = 2'000'000;
inline constexpr std::size_t kMaxEntries = 10'000;   // of a run's evaluations, of a judge's directories
inline constexpr std::size_t kMaxRuns = 4'096;       // of a study
inline constexpr std::size_t kMaxProbes = 64;        // of a study
inline constexpr std::size_t kMaxCostEntries = 256;  // of each list of cost.json
inline constexpr std::size_t kMaxSentences = 100;    // of one reader; more of the same are not worth reading

// Nothing that is measured is larger. Sums and squares of these stay finite, and doubles have every whole
// number up to 2^53.
inline constexpr double kMaxNumber = 1e15;
inline constexpr std::int64_t kMaxWhole = 1LL << 53U;

// The number at the end of a path of keys; none where a step of it is missing or of another type, or where it
// is past kMaxNumber on either side.
std::optional<double> number_at(const Json& value, std::initializer_list<const char*> keys);

// The text under a key; empty where there is none.
std::string text_at(const Json& object, const char* key);

// The list under a key; an empty one where there is none.
const Json& list_at(const Json& object, const char* key);

// A whole number from 0 to kMaxWhole, as seeds, steps and samples are; none where it is something else.
std::optional<std::int64_t> whole_at(const Json& object, const char* key);

// Whether a path that a file names stays below the directory of that file: relative, and without "..".
bool stays_inside(const std::string& path);

// One directory as it is read: `shown` is how sentences call it ("" or "runs/a-seed42").
class TolerantDirectory {
 public:
  TolerantDirectory(std::filesystem::path directory, std::string shown, std::vector<std::string>& missing)
      : directory_(std::move(directory)), shown_(std::move(shown)), missing_(missing) {}

  enum class Absent { kIsMissing, kIsFine };

  // The JSON object in a file; null where there is none.
  Json object(const std::string& file, Absent absent = Absent::kIsMissing);

  // The JSON objects of a file's lines up to the first that is broken. `counted` is what a line is called in
  // the sentence: "steps", "states".
  std::vector<Json> lines(const std::string& file, std::string_view counted,
                          Absent absent = Absent::kIsMissing);

  // A TOML file as an object; null where there is none.
  Json toml(const std::string& file, Absent absent = Absent::kIsMissing);

  // Whether the file is there, is an ordinary one and is not too large; a sentence where it is not.
  bool readable(const std::string& file, std::int64_t most, Absent absent = Absent::kIsMissing);

  // Every value under one of these keys, at any depth, that is text, true or false, a number past kMaxNumber,
  // or a list of such or of numbers becomes null, and a sentence. Objects and lists of them may carry the
  // same names ("fidelity" has a mean and a median).
  void numbers_only(Json& value, const std::string& where, std::initializer_list<std::string_view> keys);

  bool exists(const std::string& file) const;

  // Whether the directory itself is there; a sentence where it is not.
  bool is_there();
  void say(const std::string& file, std::string_view what);  // "FILE: WHAT"
  std::filesystem::path path(const std::string& file) const { return directory_ / file; }
  std::string shown(const std::string& file) const;

 private:
  std::filesystem::path directory_;
  std::string shown_;
  std::vector<std::string>& missing_;
};

}  // namespace routeopd::report
