// The place of the one file that a command makes: what is there is overwritten only where that was asked for,
// one process at a time makes it, and it appears whole. Meanwhile PATH.partial stands beside it, locked.
// Where work is long, the rows that are done stand in it, and PATH.partial.json says of which command; after
// a kill or an interruption the same command goes on from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "routeopd/base/fields.h"
#include "routeopd/base/files.h"
#include "routeopd/base/line_file.h"

namespace routeopd {

class OutputPlace {
 public:
  // Throws UserError when another process makes the file, or when there is one and `overwrite` is not said.
  OutputPlace(std::filesystem::path path, bool overwrite);
  // Removes PATH.partial where no rows are in it.
  ~OutputPlace();
  OutputPlace(const OutputPlace&) = delete;
  OutputPlace& operator=(const OutputPlace&) = delete;

  const std::filesystem::path& path() const { return path_; }  // links followed
  const std::filesystem::path& rows() const { return rows_; }
  const std::filesystem::path& command() const { return command_; }
  bool has_rows() const;

  // For a command that keeps no rows. Throws UserError where rows of another stand there.
  void refuse_rows() const;

 private:
  void lock();
  void leave();

  std::filesystem::path path_, rows_, command_;
  int descriptor_ = -1;
};

// A file that is written from its beginning to its end, and begun anew after a kill.
class OutputFile {
 public:
  OutputFile(const std::filesystem::path& path, bool overwrite);

  void write(std::string_view text) { file_.write(text); }
  void commit() { file_.commit(); }

 private:
  OutputPlace place_;
  AtomicFile file_;
};

// A file of rows that survive, each a line.
class RowFile {
 public:
  // `command`: all that decides the rows. Throws UserError where rows of another command stand.
  RowFile(OutputPlace& place, const Json& command);

  std::int64_t rows() const { return lines_.lines(); }  // with those that were there

  // `row` ends in a line feed.
  void write(std::string_view row) { lines_.write(row); }

  // `places` as in LineFile::finish.
  void finish(std::span<const std::size_t> places = {});

 private:
  OutputPlace& place_;
  LineFile lines_;
};

}  // namespace routeopd
