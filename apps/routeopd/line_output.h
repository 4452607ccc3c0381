// Where a command writes its JSON lines: standard output, or a file of complete lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iostream>
#include <optional>
#include <span>
#include <string>

#include "routeopd/base/fields.h"
#include "routeopd/base/line_file.h"

namespace routeopd::app {

class LineOutput {
 public:
  // "-" is standard output.
  explicit LineOutput(const std::string& path) {
    if (path != "-") file_.emplace(path);
  }

  // Bytes that are not UTF-8 become U+FFFD.
  void write(const Json& line) {
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (file_) {
      file_->write(text);
    } else {
      std::cout << text;
      flush();
    }
  }

  // Call it when all is written. `places` as in LineFile::finish; a stream keeps the order of writing.
  void finish(std::span<const std::size_t> places = {}) {
    if (file_) file_->finish(places);
    flush();
  }

  bool to_file() const { return file_.has_value(); }

 private:
  static void flush() {
    if (!std::cout.flush()) throw UserError("standard output: cannot be written");
  }

  std::optional<LineFile> file_;
};

}  // namespace routeopd::app
