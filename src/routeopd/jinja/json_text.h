// tojson: json.dumps of Python, with transformers' options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level; nullopt: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// Throws UserError for what JSON cannot say: undefined values, generators, functions, keys that are tuples.
std::string json_text(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace routeopd::jinja
