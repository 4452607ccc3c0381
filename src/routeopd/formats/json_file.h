// JSON from outside, such as config.json, tokenizer.json and a safetensors header: bounded in size and depth,
// and without repeated keys, of which two readers may each take another one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd::formats {

// Levels that a value from outside may nest: a few are used, and printing a value recurses.
inline constexpr int kMaxJsonDepth = 64;

// nlohmann's "[json.exception.parse_error.101] parse error at …" without its number.
std::string parse_failure(const Json::exception& error);

// The bytes of a regular file of at most `max_bytes`. Throws UserError that names it.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

// Throws UserError that begins with `where` unless `text` is one JSON object.
Json parse_json_object(std::string_view text, std::string_view where);

// The same for a file of at most `max_bytes`, named in every error.
Json read_json_object(const std::filesystem::path& path, std::int64_t max_bytes);

// The value under `key` of an object, or null where there is none: most writers mean the same by both.
const Json& value_or_null(const Json& object, const char* key);

// Throws UserError, naming the value, where a text or a name in `value` has a zero byte: as a path it would
// be another one, for the system takes what stands before. For files that name paths.
void refuse_zero_bytes(const Json& value, const std::string& name = "");

// The `id` of a line as text, `otherwise` where it has none. Throws UserError for a whole number of 2^64 or
// more, or below -2^63: it would not come back as it was written.
std::string id_of(const Json& line, std::int64_t otherwise);

// Throws UserError naming `key` unless its value is null, missing or the one that is supported.
void expect_only(const Json& object, const char* key, const Json& supported);
void expect_none(const Json& object, const char* key);

// The value as true or false; `otherwise` where it is null or missing.
bool flag_or(const Json& object, const char* key, bool otherwise);

// A list of ids from 0 to `highest`. Throws UserError("expected …, got …").
std::vector<std::int32_t> ids_in(const Json& value, std::int32_t highest);

// Runs `work`; its UserErrors begin with `what`.
template <class Work>
auto naming(std::string_view what, const Work& work) {
  try {
    return work();
  } catch (const UserError& error) {
    throw UserError("{}: {}", what, error.what());
  }
}

}  // namespace routeopd::formats
