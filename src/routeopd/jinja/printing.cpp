//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/printing.h"

#include <array>
#include <charconv>
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/loop.h"

namespace routeopd::jinja {
namespace {

// Lists and dicts are bounded in depth; namespaces, which can hold themselves, are bounded here.
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

// 'text', or "text" when it holds ' and no ".
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
    if (++depth_ > kMaxPrinted) throw UserError("expected a value to print, got one that holds itself");
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
  // Python writes an exponent below 1e-4 and from 1e16 on.
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

}  // namespace routeopd::jinja
