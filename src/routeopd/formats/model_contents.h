// Which model a directory holds: what decides the values that it gives and the text that it reads and writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "routeopd/base/fields.h"

namespace routeopd::formats {

// SHA-256 of each file beside the weights that has a say, by name: configuration, tokenizer, chat template.
// Null where there is none, so that one that is added counts, too.
Json model_files_sha256(const std::filesystem::path& directory);

}  // namespace routeopd::formats
