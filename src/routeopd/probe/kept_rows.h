// The finished rows of a probe that is under way, in OUT.unfinished/ beside its result: what is stopped,
// killed or fails goes on with them under the same command.
//
//   rows.jsonl  {"request"}: what makes the rows; then {"arm", "intervention", "scale", "rms", "changes"}, a
//               row a line, every number to its last bit
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "routeopd/base/files.h"
#include "routeopd/base/line_file.h"
#include "routeopd/probe/prober.h"

namespace routeopd::probe {

// Where the finished rows of a probe into `out` are kept.
std::filesystem::path kept_rows_path(const std::filesystem::path& out);

// Removes what a process left that was killed after `out` was whole. Nothing that a living one works in.
void forget_kept_rows(const std::filesystem::path& out);

class KeptRows {
 public:
  // `request` names all that the rows depend on, hashes of files included. Throws UserError where rows of
  // another request are kept there, and where another process works there.
  KeptRows(const std::filesystem::path& out, const Json& request);
  // Removes the directory when there is no row in it.
  ~KeptRows();
  KeptRows(const KeptRows&) = delete;
  KeptRows& operator=(const KeptRows&) = delete;

  // The row of an earlier process; null where it has to be made.
  const ProbeRow* find(const std::string& arm, Intervention intervention) const;
  void add(const ProbeRow& row);

  // When the result is in place.
  void remove();

 private:
  void read(const Json& request);

  std::filesystem::path path_;
  std::optional<DirectoryLock> lock_;
  std::optional<LineFile> lines_;
  std::map<std::string, ProbeRow> rows_;  // by arm and intervention
};

}  // namespace routeopd::probe
