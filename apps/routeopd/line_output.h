// Where a command writes its JSON lines: standard output, or a file that appears whole. Long work keeps its
// lines beside the file, and goes on from them after it was stopped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iostream>
#include <optional>
#include <span>
#include <string>

#include "command.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/output_place.h"

namespace routeopd::app {

class LineOutput {
 public:
  // "-" is standard output. Takes the place at once: what cannot be written is told before the work.
  explicit LineOutput(const OutArgument& out) {
    if (!out.is_stream()) place_.emplace(out.path, out.overwrite);
  }

  // Lines are kept, for command(): all that decides what they say. Returns how many are there already,
  // in kept(); a stream has none.
  template <class Command>
  std::int64_t keep_lines(const Command& command) {
    if (place_) rows_.emplace(*place_, command());
    return lines();
  }
  std::int64_t lines() const { return rows_ ? rows_->rows() : 0; }
  std::string kept() const { return place_ ? place_->rows().string() : ""; }

  // What is said when the work is stopped.
  void tell_kept(const OutputFlags& flags) const {
    if (lines() > 0 && !flags.quiet)
      std::cerr << fmt::format("{} lines are in {}; the same command goes on from them\n", lines(), kept());
  }

  // Bytes that are not UTF-8 become U+FFFD.
  void write(const Json& line) {
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (rows_) {
      rows_->write(text);
    } else if (place_) {
      file().write(text);
    } else {
      std::cout << text;
      flush();
    }
  }

  // Call it when all is written. `places` as in LineFile::finish; a stream keeps the order of writing.
  void finish(std::span<const std::size_t> places = {}) {
    if (rows_) {
      rows_->finish(places);
    } else if (place_) {
      file().commit();
    }
    flush();
  }

  bool to_file() const { return place_.has_value(); }

 private:
  AtomicFile& file() {
    if (!file_) {
      place_->refuse_rows();
      file_.emplace(place_->path());
    }
    return *file_;
  }

  static void flush() {
    if (!std::cout.flush()) throw UserError("standard output: cannot be written");
  }

  std::optional<OutputPlace> place_;
  std::optional<AtomicFile> file_;
  std::optional<RowFile> rows_;
};

}  // namespace routeopd::app
