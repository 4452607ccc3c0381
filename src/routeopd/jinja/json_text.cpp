//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/json_text.h"

#include <algorithm>
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/operators.h"
#include "routeopd/jinja/printing.h"

namespace routeopd::jinja {
namespace {

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return float_repr(value);
}

class Writer {
 public:
  Writer(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style), out_(heap) {}

  void write(const Value& value) {
    heap_.spend(1);
    if (const Text* text = as_text(value)) return quoted(text->bytes);
    if (is_none(value)) return out_.add("null");
    if (const auto* flag = get_if<bool>(value)) return out_.add(*flag ? "true" : "false");
    if (const auto* number = get_if<std::int64_t>(value)) return out_.add(std::to_string(*number));
    if (const auto* number = get_if<double>(value)) return out_.add(json_float(*number));
    if (const Sequence* list = as_list(value)) return write_list(*list);
    if (const Dict* dict = as_dict(value)) return write_dict(*dict);
    throw UserError("expected a value that JSON can say, got {}", type_name(value));
  }

  std::string take() { return std::move(out_.text()); }

 private:
  void quoted(std::string_view text) {
    heap_.spend_bytes(text.size());
    std::string part = "\"";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t first = at;
      const char32_t point = next_code_point(text, at);
      switch (point) {
        case '"':
          part += "\\\"";
          break;
        case '\\':
          part += "\\\\";
          break;
        case '\n':
          part += "\\n";
          break;
        case '\r':
          part += "\\r";
          break;
        case '\t':
          part += "\\t";
          break;
        case '\f':
          part += "\\f";
          break;
        case '\b':
          part += "\\b";
          break;
        default:
          if (point < 0x20 || (style_.ensure_ascii && point > 0x7E)) {
            escape(part, static_cast<std::uint32_t>(point));
          } else {
            part.append(text.substr(first, at - first));
          }
      }
    }
    part.push_back('"');
    out_.add(part);
  }

  static void escape(std::string& part, std::uint32_t point) {
    if (point < 0x10000) {
      part += fmt::format("\\u{:04x}", point);
    } else {  // a pair of surrogates
      part +=
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((point - 0x10000) >> 10U), 0xDC00 + (point & 0x3FFU));
    }
  }

  void new_line() {
    if (!style_.indent) return;
    out_.add("\n");
    out_.repeat(*style_.indent, level_);
  }

  void separate(bool first) {
    if (!first) out_.add(style_.item_separator);
    new_line();
  }

  void write_list(const Sequence& list) {
    if (list.items.empty()) return out_.add("[]");
    out_.add("[");
    ++level_;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      separate(i == 0);
      write(list.items[i]);
    }
    --level_;
    new_line();
    out_.add("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) return out_.add("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    entries.reserve(dict.entries.size());
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      // Python sorts the items, whose keys differ: the values never decide.
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(heap_, a->first, b->first); });
    }
    out_.add("{");
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0);
      write_key(entries[i]->first);
      out_.add(style_.key_separator);
      write(entries[i]->second);
    }
    --level_;
    new_line();
    out_.add("}");
  }

  void write_key(const Value& key) {
    if (const Text* text = as_text(key)) return quoted(text->bytes);
    if (is_none(key)) return out_.add("\"null\"");
    if (const auto* flag = get_if<bool>(key)) return out_.add(*flag ? "\"true\"" : "\"false\"");
    if (const auto* number = get_if<std::int64_t>(key)) return out_.add(fmt::format("\"{}\"", *number));
    if (const auto* number = get_if<double>(key)) return out_.add(fmt::format("\"{}\"", json_float(*number)));
    throw UserError("expected keys that JSON can say, got {}", type_name(key));
  }

  Heap& heap_;
  const JsonStyle& style_;
  TextBuilder out_;
  std::int64_t level_ = 0;
};

}  // namespace

std::string json_text(Heap& heap, const Value& value, const JsonStyle& style) {
  Writer writer(heap, style);
  writer.write(value);
  return writer.take();
}

}  // namespace routeopd::jinja
