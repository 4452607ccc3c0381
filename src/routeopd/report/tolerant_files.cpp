// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/tolerant_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <system_error>

#include "routeopd/formats/json_file.h"
#include "routeopd/formats/toml_settings.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

const Json& child(const Json& value, const char* key) {
  static const Json null;
  if (!value.is_object()) return null;
  const auto found = value.find(key);
  return found == value.end() ? null : *found;
}

// A parser's message repeats bytes of the file and its path; the kind of trouble is enough.
bool parsed(std::string_view text, Json& value) {
  try {
    value = formats::parse_json_object(text, "");
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Said so that NaN, which TOML knows, is not within.
bool within(double value) {
  return std::abs(value) <= kMaxNumber;
}

std::string lines_shown(std::string_view counted, std::size_t lines) {
  if (lines == 0) return fmt::format("no {} are shown", counted);
  return lines == 1 ? fmt::format("the first of its {} is shown", counted)
                    : fmt::format("{} 1 to {} are shown", counted, lines);
}

}  // namespace

std::optional<double> number_at(const Json& value, std::initializer_list<const char*> keys) {
  const Json* at = &value;
  for (const char* key : keys) at = &child(*at, key);
  if (!at->is_number() || !within(at->get<double>())) return std::nullopt;
  return at->get<double>();
}

std::string text_at(const Json& object, const char* key) {
  const Json& found = child(object, key);
  return found.is_string() ? found.get<std::string>() : std::string();
}

const Json& list_at(const Json& object, const char* key) {
  static const Json none = Json::array();
  const Json& found = child(object, key);
  return found.is_array() ? found : none;
}

std::optional<std::int64_t> whole_at(const Json& object, const char* key) {
  const Json& found = child(object, key);
  if (!found.is_number_integer()) return std::nullopt;
  const auto value = found.get<std::int64_t>();  // an unsigned one past the signed ones turns negative here
  if (value < 0 || value > kMaxWhole) return std::nullopt;
  return value;
}

bool stays_inside(const std::string& path) {
  const std::filesystem::path asked(path);
  if (path.empty() || path.find('\0') != std::string::npos || asked.is_absolute()) return false;
  return std::none_of(asked.begin(), asked.end(), [](const auto& part) { return part == ".."; });
}

std::string TolerantDirectory::shown(const std::string& file) const {
  return table::visible(shown_.empty() ? file : file.empty() ? shown_ : shown_ + "/" + file);
}

void TolerantDirectory::say(const std::string& file, std::string_view what) {
  if (missing_.size() < kMaxSentences) missing_.push_back(fmt::format("{}: {}", shown(file), what));
}

bool TolerantDirectory::exists(const std::string& file) const {
  std::error_code error;
  return std::filesystem::exists(path(file), error);
}

bool TolerantDirectory::is_there() {
  std::error_code error;
  if (std::filesystem::is_directory(directory_, error)) return true;
  say("", exists("") ? "is no directory" : "is not there");
  return false;
}

bool TolerantDirectory::readable(const std::string& file, std::int64_t most, Absent absent) {
  std::error_code error;
  if (!exists(file)) {
    if (absent == Absent::kIsMissing) say(file, "is not there");
    return false;
  }
  if (!std::filesystem::is_regular_file(path(file), error)) {
    say(file, "is no ordinary file; it is not read");
    return false;
  }
  const auto size = std::filesystem::file_size(path(file), error);
  if (error || size > static_cast<std::uintmax_t>(most)) {
    say(file, error ? std::string("cannot be read")
                    : fmt::format("has {} bytes, more than {}; it is not read", size, most));
    return false;
  }
  return true;
}

Json TolerantDirectory::object(const std::string& file, Absent absent) {
  if (!readable(file, kMaxObjectBytes, absent)) return {};
  try {
    Json value;
    if (parsed(formats::read_text_file(path(file), kMaxObjectBytes), value)) return value;
    say(file, "is cut or is no JSON object; nothing of it is shown");
  } catch (const std::exception&) {
    say(file, "cannot be read");
  }
  return {};
}

Json TolerantDirectory::toml(const std::string& file, Absent absent) {
  if (!readable(file, kMaxObjectBytes, absent)) return {};
  try {
    Json value = formats::toml_file(path(file).string());
    if (value.is_object()) return value;
  } catch (const std::exception&) {
  }
  say(file, "is cut or is no TOML; nothing of it is shown");
  return {};
}

std::vector<Json> TolerantDirectory::lines(const std::string& file, std::string_view counted, Absent absent) {
  std::vector<Json> found;
  if (!readable(file, kMaxFileBytes, absent)) return found;
  std::ifstream stream(path(file), std::ios::binary);
  if (!stream) {
    say(file, "cannot be read");
    return found;
  }
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (std::ssize(line) > kMaxLineBytes || found.size() == kMaxLines) {
      say(file,
          fmt::format("line {} is {}; {}", number, found.size() == kMaxLines ? "one of too many" : "too long",
                      lines_shown(counted, found.size())));
      return found;
    }
    Json value;
    if (!parsed(line, value)) {
      // Every writer ends a line with a line feed: the last line without one was cut.
      say(file, fmt::format("line {} is {}; {}", number, stream.eof() ? "cut" : "no JSON object",
                            lines_shown(counted, found.size())));
      return found;
    }
    found.push_back(std::move(value));
  }
  if (found.empty()) say(file, "is empty");
  return found;
}

void TolerantDirectory::numbers_only(Json& value, const std::string& where,
                                     std::initializer_list<std::string_view> keys) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      numbers_only(value[i], fmt::format("{}[{}]", where, i), keys);
    return;
  }
  if (!value.is_object()) return;
  for (auto item = value.begin(); item != value.end(); ++item) {
    const bool is_number = std::find(keys.begin(), keys.end(), item.key()) != keys.end();
    const bool of_objects = item->is_array() && (item->empty() || item->front().is_object());
    if (is_number && (item->is_string() || item->is_boolean() || (item->is_array() && !of_objects))) {
      say(where, fmt::format("{}: expected a number, got {}; it is not shown", table::visible(item.key()),
                             item->type_name()));
      *item = nullptr;
    } else if (is_number && item->is_number() && !within(item->get<double>())) {
      say(where, fmt::format("{}: expected a number up to {:g}; it is not shown", table::visible(item.key()),
                             kMaxNumber));
      *item = nullptr;
    } else if (item->is_structured()) {
      numbers_only(*item, fmt::format("{}.{}", where, item.key()), keys);
    }
  }
}

}  // namespace routeopd::report
