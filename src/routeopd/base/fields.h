// Options declared once: a table of fields per options struct gives parsing, checking, help and printing to
// the command line, to JSON lines and to TOML recipes alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/json_fwd.h"

namespace routeopd {

template <class Struct>
struct Field {
  std::string name;
  std::string help;
  std::function<void(Struct&, const Json&)> set;  // throws UserError("expected …, got …")
  std::function<Json(const Struct&)> get;
};

template <class Struct>
using Fields = std::vector<Field<Struct>>;

template <class Enum>
using Choices = std::vector<std::pair<std::string, Enum>>;

// A word of the command line as a JSON value: a number, true or false where it reads as one, else a string.
Json value_of_word(const std::string& word);

// The known name nearest to `name` by edit distance.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

inline std::string shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The text of `value`. Throws unless it is text without a zero byte, where paths would end for the system.
std::string plain_text(const Json& value);

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  // low itself is refused
};

// Throws unless `value` is a finite number in `range` (a whole one with `whole`).
double number_in(const Json& value, const Range& range, bool whole = false);

template <class Struct, class Number>
Field<Struct> number_field(std::string name, Number Struct::* member, std::string help, Range range) {
  return {std::move(name), std::move(help),
          [member, range](Struct& options, const Json& value) {
            options.*member = static_cast<Number>(number_in(value, range, std::is_integral_v<Number>));
          },
          [member](const Struct& options) { return Json(options.*member); }};
}

template <class Enum>
std::string choice_names(const Choices<Enum>& choices) {
  std::string names;
  for (const auto& [name, value] : choices) names += (names.empty() ? "" : " | ") + name;
  return names;
}

template <class Enum>
Enum choice_of(const Json& value, const Choices<Enum>& choices) {
  for (const auto& [name, choice] : choices) {
    if (value.is_string() && value.get<std::string>() == name) return choice;
  }
  throw UserError("expected {}, got {}", choice_names(choices), shown(value));
}

template <class Enum>
std::string choice_name(Enum value, const Choices<Enum>& choices) {
  for (const auto& [name, choice] : choices) {
    if (choice == value) return name;
  }
  ROUTEOPD_INVARIANT(false && "an enum value without a name");
  return {};
}

template <class Struct, class Enum>
Field<Struct> choice_field(std::string name, Enum Struct::* member, std::string help,
                           const Choices<Enum>& choices) {
  help += ": " + choice_names(choices);
  return {
      std::move(name), std::move(help),
      [member, choices](Struct& options, const Json& value) { options.*member = choice_of(value, choices); },
      [member, choices](const Struct& options) { return Json(choice_name(options.*member, choices)); }};
}

template <class Struct>
Field<Struct> text_field(std::string name, std::string Struct::* member, std::string help) {
  return {std::move(name), std::move(help),
          [member](Struct& options, const Json& value) { options.*member = plain_text(value); },
          [member](const Struct& options) { return Json(options.*member); }};
}

template <class Struct>
Field<Struct> switch_field(std::string name, bool Struct::* member, std::string help) {
  return {std::move(name), std::move(help),
          [member](Struct& options, const Json& value) {
            if (!value.is_boolean()) throw UserError("expected true or false, got {}", shown(value));
            options.*member = value.get<bool>();
          },
          [member](const Struct& options) { return Json(options.*member); }};
}

template <class Struct>
std::vector<std::string> names_of(const Fields<Struct>& fields) {
  std::vector<std::string> names;
  for (const Field<Struct>& field : fields) names.push_back(field.name);
  return names;
}

// Sets one field by name; errors name it.
template <class Struct>
void set_field(Struct& options, const Fields<Struct>& fields, const std::string& name, const Json& value) {
  for (const Field<Struct>& field : fields) {
    if (field.name != name) continue;
    try {
      field.set(options, value);
    } catch (const UserError& error) {
      throw UserError("{}: {}", name, error.what());
    }
    return;
  }
  throw UserError("unknown option {}; did you mean {}?", name, nearest_name(name, names_of(fields)));
}

}  // namespace routeopd
