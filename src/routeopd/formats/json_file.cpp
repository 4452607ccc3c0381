// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/json_file.h"

#include <cmath>
#include <cstddef>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <unordered_set>
#include <vector>

namespace routeopd::formats {
namespace {

constexpr std::int64_t kMaxValues = 1LL << 24U;  // 16 bytes each: 100 MB of "[1,1,…" would ask for 800 MB

// Watches the parser: throws at the first repeated key, and at one level or value too many.
class Guard {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (depth >= kMaxJsonDepth) throw UserError("expected at most {} nested levels, got more", kMaxJsonDepth);
    if (event == Event::object_start) {
      keys_.resize(static_cast<std::size_t>(depth) + 1);
      keys_.back().clear();
    } else if (event == Event::key) {
      // The parser counts a key as one level deeper than its object.
      const auto& name = value.get_ref<const std::string&>();
      if (!keys_[static_cast<std::size_t>(depth) - 1].insert(name).second)
        throw UserError("expected each key once, got {} twice", name);
    } else if (event == Event::value && ++values_ > kMaxValues) {
      throw UserError("expected at most {} values, got more", kMaxValues);
    }
    return true;
  }

 private:
  std::vector<std::unordered_set<std::string>> keys_;  // of the open object at each depth
  std::int64_t values_ = 0;
};

}  // namespace

std::string parse_failure(const Json::exception& error) {
  std::string what = error.what();
  if (const auto close = what.find("] "); close != std::string::npos) what.erase(0, close + 2);
  constexpr std::size_t kMost = 300;  // the parser repeats what it read last, however long
  if (what.size() <= kMost) return what;
  std::size_t end = kMost;
  while (end > 0 && (what[end] & 0xC0) == 0x80) --end;  // between two characters
  return what.substr(0, end) + " …";
}

Json parse_json_object(std::string_view text, std::string_view where) {
  // To the parser a zero byte is the end of the text, whatever follows it.
  if (text.find('\0') != std::string_view::npos)
    throw UserError("{}: expected JSON, got a zero byte in it", where);
  Json value;
  try {
    Guard guard;
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
