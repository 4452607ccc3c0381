// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/toml_settings.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "routeopd/formats/json_file.h"

namespace routeopd::formats {

namespace {

// toml++ recurses into dotted keys and nested lists: a recipe has neither deep ones nor megabytes of them.
constexpr std::uintmax_t kMaxBytes = 1 << 20;
constexpr std::ptrdiff_t kMaxDots = 64;

void check_size(const std::string& path) {
  if (std::filesystem::file_size(path) > kMaxBytes)
    throw UserError("{}: has more than {} bytes; is it a recipe?", path, kMaxBytes);
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto key_end = line.begin() + static_cast<std::ptrdiff_t>(std::min(line.find('='), line.size()));
    if (std::count(line.begin(), key_end, '.') > kMaxDots)
      throw UserError("{}: a key of too many parts", path);
  }
}

}  // namespace

Json toml_file(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw UserError("{}: cannot be read; is the path right?", path);
  check_size(path);
  toml::table recipe;
  try {
    recipe = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw UserError("{}:{}: not TOML ({})", path, error.source().begin.line, error.description());
  }
  std::ostringstream text;  // but for dates, TOML's values are JSON's, and toml++ writes them as JSON
  text << toml::json_formatter(recipe);
  Json settings = Json::parse(text.str());
  naming(path, [&] { refuse_zero_bytes(settings); });
  return settings;
}

Json toml_section(const std::string& path, const std::string& section) {
  const Json recipe = toml_file(path);
  if (!recipe.contains(section)) return Json::object();
  if (!recipe[section].is_object()) throw UserError("{}: expected {} to be a section", path, section);
  return recipe[section];
}

std::string toml_value(const Json& value) {
  if (value.is_array()) {
    std::string items;
    for (const Json& item : value) items += (items.empty() ? "" : ", ") + toml_value(item);
    return "[" + items + "]";
  }
  if (value.is_object()) {
    std::string items;
    for (const auto& [name, item] : value.items())
      items += (items.empty() ? "" : ", ") + Json(name).dump() + " = " + toml_value(item);
    return items.empty() ? "{}" : "{ " + items + " }";
  }
  // A JSON string is a TOML basic string, except for the character DEL; a float needs a point or an exponent
  // in both.
  std::string text = value.dump();
  for (std::size_t at = 0; (at = text.find('\x7f', at)) != std::string::npos;) text.replace(at, 1, "\\u007f");
  return text;
}

}  // namespace routeopd::formats
