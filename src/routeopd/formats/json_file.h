// JSON that comes from outside, such as config.json, tokenizer.json and a safetensors header: bounded in size
// and depth, and without repeated keys, of which two readers may each believe another one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "routeopd/base/fields.h"

namespace routeopd::formats {

// Throws UserError that begins with `where` unless `text` is one JSON object.
Json parse_json_object(std::string_view text, std::string_view where);

// The same for a file of at most `max_bytes`, named in every error.
Json read_json_object(const std::filesystem::path& path, std::int64_t max_bytes);

}  // namespace routeopd::formats
