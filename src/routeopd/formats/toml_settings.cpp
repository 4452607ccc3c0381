//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/toml_settings.h"

#include <toml++/toml.h>
#include <filesystem>
#include <sstream>

namespace routeopd::formats {

Json toml_file(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw UserError("{}: cannot be read; is the path right?", path);
  toml::table recipe;
  try {
    recipe = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw UserError("{}:{}: not TOML ({})", path, error.source().begin.line, error.description());
  }
  std::ostringstream text;  // TOML's values are JSON's, dates apart; toml++ writes them as such
  text << toml::json_formatter(recipe);
  return Json::parse(text.str());
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
  // A JSON string is a TOML basic string, but for the character DEL; a float needs a point or an exponent in both.
  return value.dump();
}

}  // namespace routeopd::formats
