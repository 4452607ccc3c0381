// What a saved model takes over from the directory that it came from: configuration, tokenizer, templates.
// They are held in memory, so that a checkpoint has those that the run began with, wherever the directory is
// by then.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace routeopd::model {

class CarriedFiles {
 public:
  // Throws UserError for a directory without config.json, and for files that cannot be read or are larger
  // than those of any tokenizer (256 MiB).
  explicit CarriedFiles(const std::filesystem::path& directory);

  // Writes all of them. config.json is written byte for byte; only where it names another type of weights
  // than `dtype`, that word is changed, or readers would round them.
  void write(const std::filesystem::path& directory, const char* dtype) const;

  // The name of the first file that is another one, or is only on one side; empty: none. The type of weights
  // in config.json does not count.
  std::string difference(const CarriedFiles& other) const;

 private:
  std::map<std::string, std::string> bytes_;  // by name relative to the directory
};

}  // namespace routeopd::model
