// The tokenizers in goldens/tokenizer, each a directory with a tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "routeopd/base/fields.h"
#include "testing_files.h"

namespace routeopd::tokenizer {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(ROUTEOPD_TEST_DATA) / "goldens" / "tokenizer" / name;
}

inline Json golden_json(const std::string& name) {
  return Json::parse(bytes_in(golden(name) / "tokenizer.json"));
}

}  // namespace routeopd::tokenizer
