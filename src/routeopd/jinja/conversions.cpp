// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/conversions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/operators.h"

namespace routeopd::jinja {
namespace {

// Lists and dicts are bounded in depth already; namespaces, which can contain themselves, are bounded here.
constexpr int kMaxPrinted = 2 * kMaxNesting;

void add_escape(std::string& out, char32_t point) {
  const auto code = static_cast<std::uint32_t>(point);
  if (point == '\n') {
    out += "\\n";
  } else if (point == '\r') {
    out += "\\r";
  } else if (point == '\t') {
    out += "\\t";
  } else if (code < 0x100) {
    out += fmt::format("\\x{:02x}", code);
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\U{:08x}", code);
  }
}

// 'text', or "text" if it contains ' and no ".
void add_quoted(TextBuilder& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out.heap().spend_bytes(text.size());
  std::string part(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    const char32_t point = next_code_point(text, at);
    if (point == static_cast<unsigned char>(quote) || point == '\\') {
      part.push_back('\\');
      part.push_back(static_cast<char>(point));
    } else if (python::is_printable(point)) {
      part.append(text.substr(first, at - first));
    } else {
      add_escape(part, point);
    }
  }
  part.push_back(quote);
  out.add(part);
}

class Printer {
 public:
  explicit Printer(TextBuilder& out) : out_(out) {}

  void print(const Value& value) {
    out_.heap().spend(1);
    if (++depth_ > kMaxPrinted) throw UserError("expected a value to print, got one that contains itself");
    if (const Text* text = as_text(value)) {
      if (text->markup) out_.add("Markup(");
      add_quoted(out_, text->bytes);
      if (text->markup) out_.add(")");
    } else if (const auto* sequence = get_if<SequencePtr>(value)) {
      print_sequence(**sequence);
    } else if (const Dict* dict = as_dict(value)) {
      print_dict(*dict);
    } else if (const auto* space = get_if<NamespacePtr>(value)) {
      print_namespace(**space);
    } else {
      print_single(value);
    }
    --depth_;
  }

 private:
  void print_single(const Value& value) {
    if (is_undefined(value)) return out_.add("Undefined");
    if (is_none(value)) return out_.add("None");
    if (const auto* flag = get_if<bool>(value)) return out_.add(*flag ? "True" : "False");
    if (const auto* number = get_if<std::int64_t>(value)) return out_.add(std::to_string(*number));
    if (const auto* number = get_if<double>(value)) return out_.add(float_repr(*number));
    if (const auto* range = get_if<RangePtr>(value)) {
      const Range& r = **range;
      return out_.add(r.step == 1 ? fmt::format("range({}, {})", r.start, r.stop)
                                  : fmt::format("range({}, {}, {})", r.start, r.stop, r.step));
    }
    if (const auto* callable = get_if<CallablePtr>(value); callable != nullptr && (*callable)->is_macro) {
      out_.add("<Macro ");
      add_quoted(out_, (*callable)->name);
      return out_.add(">");
    }
    if (const auto* loop = get_if<LoopPtr>(value); loop != nullptr && !(*loop)->ended)
      return out_.add(fmt::format("<LoopContext {}/{}>", (*loop)->index0 + 1, (*loop)->length()));
    throw UserError("expected a value to print, got a {}; try the filter list", type_name(value));
  }

  void print_items(const Values& items) {
    bool first = true;
    for (const Value& item : items) {
      if (!first) out_.add(", ");
      first = false;
      print(item);
    }
  }

  void print_sequence(const Sequence& sequence) {
    switch (sequence.form) {
      case Sequence::Form::kTuple:
        out_.add("(");
        print_items(sequence.items);
        out_.add(sequence.items.size() == 1 ? ",)" : ")");
        return;
      case Sequence::Form::kDictItems:
        out_.add("dict_items");
        break;
      case Sequence::Form::kDictKeys:
        out_.add("dict_keys");
        break;
      case Sequence::Form::kDictValues:
        out_.add("dict_values");
        break;
      case Sequence::Form::kList:
        break;
    }
    const bool is_view = sequence.form != Sequence::Form::kList;
    out_.add(is_view ? "([" : "[");
    print_items(sequence.items);
    out_.add(is_view ? "])" : "]");
  }

  void print_dict(const Dict& dict) {
    out_.add("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!first) out_.add(", ");
      first = false;
      print(key);
      out_.add(": ");
      print(value);
    }
    out_.add("}");
  }

  void print_namespace(const Namespace& space) {
    out_.add("<Namespace {");
    bool first = true;
    for (const auto& [name, value] : space.attributes) {
      if (!first) out_.add(", ");
      first = false;
      add_quoted(out_, name);
      out_.add(": ");
      print(value);
    }
    out_.add("}>");
  }

  TextBuilder& out_;
  int depth_ = 0;
};

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return float_repr(value);
}

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style), out_(heap) {}

  void write(const Value& value) {
    heap_.spend(1);
    if (const Text* text = as_text(value)) return quoted(text->bytes);
    if (is_none(value)) return out_.add("null");
    if (const auto* flag = get_if<bool>(value)) return out_.add(*flag ? "true" : "false");
    if (const auto* number = get_if<std::int64_t>(value)) return out_.add(std::to_string(*number));
    if (const auto* number = get_if<double>(value)) return out_.add(json_float(*number));
    if (const Sequence* list = as_list(value)) return write_list(*list);
    if (const Dict* dict = as_dict(value)) return write_dict(*dict);
    throw UserError("expected a value that JSON can represent, got {}", type_name(value));
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
      // Python sorts pairs of key and value; keys differ, so that values are never compared.
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
    throw UserError("expected keys that JSON can represent, got {}", type_name(key));
  }

  Heap& heap_;
  const JsonStyle& style_;
  TextBuilder out_;
  std::int64_t level_ = 0;
};

// The text without surrounding whitespace and without underscores; nullopt if one is not between digits.
std::optional<std::string> cleaned(std::string_view text) {
  text = python::strip_right(python::strip_left(text));
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain.push_back(text[i]);
      continue;
    }
    const auto is_word = [](char c) { return is_ascii_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
    if (i == 0 || i + 1 == text.size() || !is_word(text[i - 1]) || !is_word(text[i + 1])) return std::nullopt;
  }
  return plain;
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t letter = text.find('e');
  const int exponent = std::atoi(text.data() + letter + 1);
  std::string digits;
  for (const char c : text.substr(0, letter)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  const std::string sign = text.front() == '-' ? "-" : "";
  const auto count = static_cast<int>(digits.size());
  // Python uses an exponent below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, 1, '.');
    return fmt::format("{}{}e{}{:02}", sign, digits, exponent < 0 ? "-" : "+", std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  return sign + digits.insert(static_cast<std::size_t>(exponent + 1), 1, '.');
}

std::string repr(Heap& heap, const Value& value) {
  TextBuilder out(heap);
  Printer(out).print(value);
  return std::move(out.text());
}

std::string str(Heap& heap, const Value& value) {
  if (const Text* text = as_text(value)) return text->bytes;
  if (is_undefined(value)) return "";
  return repr(heap, value);
}

Value soft_text(Heap& heap, const Value& value) {
  return as_text(value) != nullptr ? value : heap.text(str(heap, value));
}

std::string json_text(Heap& heap, const Value& value, const JsonStyle& style) {
  JsonWriter writer(heap, style);
  writer.write(value);
  return writer.take();
}

std::optional<std::int64_t> parsed_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const auto plain = cleaned(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  const char letter = digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
  const std::int64_t prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    digits.remove_prefix(2);
    base = prefixed;
  } else if (base == 0) {
    // Without a prefix, only zero itself may start with a zero.
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos)
      return std::nullopt;
    base = 10;
  }
  if (digits.empty()) return std::nullopt;
  const auto digit_of = [base](char c) -> std::int64_t {
    const char lower = static_cast<char>(c | 0x20);
    const std::int64_t digit = is_ascii_digit(c)              ? c - '0'
                               : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                              : 99;
    return digit < base ? digit : -1;
  };
  if (std::any_of(digits.begin(), digits.end(), [&](char c) { return digit_of(c) < 0; })) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : digits) {
    const std::int64_t digit = digit_of(c);
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, negative ? -digit : digit, &value))
      throw UserError("int: expected a number below 2^63, got a larger one");
  }
  return value;
}

std::optional<double> parsed_float(std::string_view text) {
  const auto plain = cleaned(text);
  if (!plain || plain->empty()) return std::nullopt;
  const std::size_t sign = plain->front() == '-' || plain->front() == '+' ? 1 : 0;
  const std::string word = python::to_lower(std::string_view(*plain).substr(sign));
  const bool is_word = word == "inf" || word == "infinity" || word == "nan";
  // strtod reads hexadecimal numbers too, which Python does not.
  if (!is_word && word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(plain->c_str(), &end);
  if (end != plain->c_str() + plain->size()) return std::nullopt;
  return value;
}

}  // namespace routeopd::jinja
