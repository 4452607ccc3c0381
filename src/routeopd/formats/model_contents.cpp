// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/model_contents.h"

#include <array>
#include <system_error>

#include "routeopd/base/hashes.h"

namespace routeopd::formats {

Json model_files_sha256(const std::filesystem::path& directory) {
  constexpr std::array kFiles = {"config.json",           "generation_config.json",  "tokenizer.json",
                                 "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                 "chat_template.jinja",   "chat_template.json"};
  Json files = Json::object();
  for (const char* name : kFiles) {
    std::error_code unreadable;
    const bool there = std::filesystem::exists(directory / name, unreadable);
    files[name] = there ? Json(sha256_of_file(directory / name)) : Json();
  }
  return files;
}

}  // namespace routeopd::formats
