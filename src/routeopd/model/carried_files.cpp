// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/carried_files.h"

#include <array>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "routeopd/base/die_at_write.h"
#include "routeopd/base/error.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::model {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kConfig = "config.json";
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

// Files and folders.
constexpr std::array kCarried = {kConfig,
                                 "generation_config.json",
                                 "tokenizer.json",
                                 "tokenizer_config.json",
                                 "special_tokens_map.json",
                                 "added_tokens.json",
                                 "vocab.json",
                                 "merges.txt",
                                 "tokenizer.model",
                                 "chat_template.jinja",
                                 "chat_template.json",
                                 "additional_chat_templates"};

// The names of the type of weights, old and new.
constexpr std::array kDtypeKeys = {"dtype", "torch_dtype"};

std::string config_with_dtype(const std::string& text, const char* dtype) {
  OrderedJson config = OrderedJson::parse(text);
  bool changed = false;
  for (const char* key : kDtypeKeys) {
    if (!config.contains(key) || config[key] == dtype) continue;
    config[key] = dtype;
    changed = true;
  }
  return changed ? config.dump(2) + "\n" : text;
}

std::string without_dtype(const std::string& text) {
  OrderedJson config = OrderedJson::parse(text);
  for (const char* key : kDtypeKeys) config.erase(key);
  return config.dump();
}

// The directory is one that appears whole or not at all: a plain write is enough.
void write_plainly(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  before_write([&] { file << bytes.substr(0, bytes.size() / 2) << std::flush; });
  file << bytes << std::flush;
  if (!file) throw UserError("{}: cannot be written; is the disk full?", path.string());
}

}  // namespace

CarriedFiles::CarriedFiles(const fs::path& directory) {
  for (const char* name : kCarried) {
    const fs::path path = directory / name;
    std::error_code unreadable;
    if (fs::is_directory(path, unreadable)) {
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (entry.is_regular_file())
          bytes_[entry.path().lexically_relative(directory).generic_string()] =
              formats::read_text_file(entry.path(), kMostBytes);
    } else if (name == kConfig || fs::exists(path, unreadable)) {
      bytes_[name] = formats::read_text_file(path, kMostBytes);
    }
  }
  const OrderedJson config = OrderedJson::parse(bytes_[kConfig], nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw UserError("{}: expected a JSON object", (directory / kConfig).string());
}

void CarriedFiles::write(const fs::path& directory, const char* dtype) const {
  for (const auto& [name, bytes] : bytes_) {
    const fs::path path = directory / name;
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    if (failed) throw UserError("{}: cannot be made ({})", path.parent_path().string(), failed.message());
    write_plainly(path, name == kConfig ? config_with_dtype(bytes, dtype) : bytes);
  }
}

std::string CarriedFiles::difference(const CarriedFiles& other) const {
  for (const CarriedFiles* side : {this, &other}) {
    for (const auto& [name, bytes] : side->bytes_) {
      const auto mine = bytes_.find(name), theirs = other.bytes_.find(name);
      if (mine == bytes_.end() || theirs == other.bytes_.end()) return name;
      const bool same = name == kConfig ? without_dtype(mine->second) == without_dtype(theirs->second)
                                        : mine->second == theirs->second;
      if (!same) return name;
    }
  }
  return "";
}

}  // namespace routeopd::model
