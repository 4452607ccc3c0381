// Where a command's JSON lines go: standard output as they come, or a file that appears when all of it is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iostream>
#include <optional>
#include <string>

#include "routeopd/base/atomic_file.h"
#include "routeopd/base/fields.h"

namespace routeopd::app {

class LineOutput {
 public:
  // "-" is standard output.
  explicit LineOutput(const std::string& path) {
    if (path != "-") file_.emplace(path);
  }

  // Bytes that are no UTF-8 become U+FFFD.
  void write(const Json& line) {
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (file_) {
      file_->write(text);
    } else {
      std::cout << text;
    }
  }

  void commit() {
    if (file_) file_->commit();
    if (!std::cout.flush()) throw UserError("standard output: cannot be written");
  }

  bool to_file() const { return file_.has_value(); }

 private:
  std::optional<AtomicFile> file_;
};

}  // namespace routeopd::app
