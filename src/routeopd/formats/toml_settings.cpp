//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/toml_settings.h"

#include <toml++/toml.h>
#include <filesystem>
#include <sstream>

namespace routeopd::formats {

Json toml_section(const std::string& path, const std::string& section) {
  if (!std::filesystem::is_regular_file(path))
    throw UserError("{}: cannot be read; is the path right?", path);
  toml::table recipe;
  try {
    recipe = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw UserError("{}:{}: not TOML ({})", path, error.source().begin.line, error.description());
  }
  if (!recipe.contains(section)) return Json::object();
  const toml::table* table = recipe[section].as_table();
  if (table == nullptr) throw UserError("{}: expected {} to be a section", path, section);
  std::ostringstream text;  // TOML's values are JSON's, dates apart; toml++ writes them as such
  text << toml::json_formatter(*table);
  return Json::parse(text.str());
}

}  // namespace routeopd::formats
