// Conversions between values and text: Python's str(), repr(), json.dumps(), int() and float().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {

// repr(float): the shortest digits that read back as the same number.
std::string float_repr(double value);

// str(): texts as they are, an undefined value as nothing. Throws UserError for what Python prints with an
// address.
std::string str(Heap& heap, const Value& value);

// repr(): texts in quotes, with escapes.
std::string repr(Heap& heap, const Value& value);

// str() as a value: a text is returned itself, and stays escaped if it is.
Value soft_text(Heap& heap, const Value& value);

// The options of tojson; the defaults are those of transformers.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level; nullopt: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// json.dumps(). Throws UserError for what JSON cannot represent: undefined values, generators, functions,
// tuples as keys.
std::string json_text(Heap& heap, const Value& value, const JsonStyle& style);

// int() and float() of a text: whitespace around the number and underscores between its digits are allowed.
// nullopt where Python raises ValueError. parsed_integer() throws UserError from 2^63 on; base 0 follows the
// prefix 0x, 0o or 0b.
std::optional<std::int64_t> parsed_integer(std::string_view text, std::int64_t base);
std::optional<double> parsed_float(std::string_view text);

}  // namespace routeopd::jinja
