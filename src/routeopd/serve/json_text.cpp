// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace routeopd::serve {

void JsonText::separate() {
  // Strings end with a quote, so that these characters are always JSON's own.
  if (text_.empty()) return;
  const char last = text_.back();
  if (last != '{' && last != '[' && last != ':') text_ += ',';
}

JsonText& JsonText::open(char bracket) {
  separate();
  text_ += bracket;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  text_ += bracket;
  return *this;
}

JsonText& JsonText::key(std::string_view name) {
  text(name);
  text_ += ':';
  return *this;
}

JsonText& JsonText::null() {
  return raw("null");
}

JsonText& JsonText::boolean(bool value) {
  return raw(value ? "true" : "false");
}

JsonText& JsonText::integer(std::int64_t value) {
  separate();
  fmt::format_to(std::back_inserter(text_), "{}", value);
  return *this;
}

JsonText& JsonText::text(std::string_view value) {
  separate();
  text_ += '"';
  for (const char c : value) {
    switch (c) {
      case '"':
        text_ += "\\\"";
        break;
      case '\\':
        text_ += "\\\\";
        break;
      case '\n':
        text_ += "\\n";
        break;
      case '\r':
        text_ += "\\r";
        break;
      case '\t':
        text_ += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          fmt::format_to(std::back_inserter(text_), "\\u{:04x}", static_cast<unsigned>(c));
        } else {
          text_ += c;
        }
    }
  }
  text_ += '"';
  return *this;
}

JsonText& JsonText::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonText& JsonText::number(float value) {
  constexpr float kLowest = -9999;
  separate();
  if (!std::isfinite(value)) value = kLowest;
  const std::size_t start = text_.size();
  fmt::format_to(std::back_inserter(text_), "{}", static_cast<double>(value));
  if (text_.find_first_of(".e", start) == std::string::npos) text_ += ".0";
  return *this;
}

JsonText& JsonText::ids(std::span<const std::int32_t> values) {
  open('[');
  for (const std::int32_t value : values) integer(value);
  return close(']');
}

}  // namespace routeopd::serve
