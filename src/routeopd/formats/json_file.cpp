// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/json_file.h"

#include <cmath>
#include <cstddef>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_guard.h"

namespace routeopd::formats {

std::string parse_failure(const Json::exception& error) {
  std::string what = error.what();
  if (const auto close = what.find("] "); close != std::string::npos) what.erase(0, close + 2);
  constexpr std::size_t kMost = 300;  // the parser repeats what it read last, however long
  if (what.size() <= kMost) return what;
  return std::string(utf8_head(what, kMost)) + " …";
}

Json parse_json_object(std::string_view text, std::string_view where) {
  // To the parser a zero byte is the end of the text, whatever follows it.
  if (text.find('\0') != std::string_view::npos)
    throw UserError("{}: expected JSON, got a zero byte in it", where);
  Json value;
  try {
    JsonGuard guard;
    value = Json::parse(text.begin(), text.end(), std::ref(guard));
  } catch (const Json::exception& error) {
    throw UserError("{}: expected JSON, got something else ({})", where, parse_failure(error));
  } catch (const UserError& error) {
    throw UserError("{}: {}", where, error.what());
  }
  if (!value.is_object()) throw UserError("{}: expected a JSON object, got {}", where, value.type_name());
  return value;
}

std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw UserError("{}: cannot be read; is the path right?", path.string());
  std::ifstream file(path, std::ios::binary);
  const auto size = std::filesystem::file_size(path, error);
  if (!file || error) throw UserError("{}: cannot be read; is the path right?", path.string());
  if (size > static_cast<std::uintmax_t>(max_bytes))
    throw UserError("{}: expected at most {} bytes, got {}", path.string(), max_bytes, size);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    throw UserError("{}: reading failed", path.string());
  return text;
}

Json read_json_object(const std::filesystem::path& path, std::int64_t max_bytes) {
  return parse_json_object(read_text_file(path, max_bytes), path.string());
}

std::vector<std::int32_t> ids_in(const Json& value, std::int32_t highest) {
  if (!value.is_array()) throw UserError("expected a list of ids, got {}", shown(value));
  std::vector<std::int32_t> ids;
  for (const Json& id : value)
    ids.push_back(static_cast<std::int32_t>(number_in(id, {0, static_cast<double>(highest)}, true)));
  return ids;
}

const Json& value_or_null(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

void refuse_zero_bytes(const Json& value, const std::string& name) {
  if (value.is_string()) naming(name, [&] { plain_text(value); });
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) {
    plain_text(Json(key));
    refuse_zero_bytes(item, name.empty() ? key : fmt::format("{}.{}", name, key));
  }
}

std::string id_of(const Json& line, std::int64_t otherwise) {
  const auto found = line.find("id");
  if (found == line.end()) return std::to_string(otherwise);
  // Every double from 2^53 on is a whole number, and the parser reads whole numbers below 2^64 as such.
  if (found->is_number_float() && std::abs(found->get<double>()) >= 0x1p53)
    throw UserError("id: expected a whole number below 2^64 or text, got {}; put it in quotation marks",
                    shown(*found));
  return shown(*found);
}

void expect_only(const Json& object, const char* key, const Json& supported) {
  const Json& value = value_or_null(object, key);
  if (!value.is_null() && value != supported)
    throw UserError("{}: expected {}, the only one supported, got {}", key,
                    supported == "" ? "none" : shown(supported), shown(value));
}

void expect_none(const Json& object, const char* key) {
  const Json& value = value_or_null(object, key);
  if (!value.is_null())
    throw UserError("{}: expected none, which alone is supported, got {}", key, shown(value));
}

bool flag_or(const Json& object, const char* key, bool otherwise) {
  const Json& value = value_or_null(object, key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) throw UserError("{}: expected true or false, got {}", key, shown(value));
  return value.get<bool>();
}

}  // namespace routeopd::formats
