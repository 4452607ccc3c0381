//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/attribute_path.h"

#include <algorithm>

#include "routeopd/jinja/literals.h"

namespace routeopd::jinja {
namespace {

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at = text.find(separator); at != std::string::npos; at = text.find(separator, from)) {
    parts.push_back(text.substr(from, at - from));
    from = at + 1;
  }
  parts.push_back(text.substr(from));
  return parts;
}

}  // namespace

AttributePath::AttributePath(Heap& heap, const Value& attribute, Value otherwise)
    : otherwise_(std::move(otherwise)) {
  if (is_none(attribute)) return;
  const Text* text = as_text(attribute);
  if (text == nullptr) {
    parts_.push_back(attribute);
    return;
  }
  for (std::string& part : split_at(text->bytes, '.')) {
    const bool is_number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto number = is_number ? parsed_integer(part, 10) : std::nullopt;
    parts_.push_back(number ? Value(*number) : heap.text(std::move(part)));
  }
}

Value AttributePath::of(Interpreter& interpreter, Value item) const {
  for (const Value& part : parts_) {
    item = interpreter.item(item, part);
    if (!is_none(otherwise_) && is_undefined(item)) item = otherwise_;
  }
  return item;
}

std::vector<AttributePath> several_paths(Heap& heap, const Value& attribute) {
  std::vector<AttributePath> paths;
  const Text* text = as_text(attribute);
  if (text == nullptr) {
    paths.emplace_back(heap, attribute);
  } else {
    for (std::string& each : split_at(text->bytes, ',')) paths.emplace_back(heap, heap.text(std::move(each)));
  }
  return paths;
}

}  // namespace routeopd::jinja
