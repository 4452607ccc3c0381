// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/string_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/conversions.h"
#include "routeopd/jinja/evaluator.h"
#include "routeopd/jinja/methods.h"

namespace routeopd::jinja {
namespace {

constexpr std::int64_t kMaxPrecision = 400;  // of numbers; a double has at most 17 significant digits

// One replacement field, as both languages describe it.
struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // - + or space
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = '\0';
  std::optional<std::int64_t> precision;
  char type = '\0';
};

int precision_of(const Spec& spec, int otherwise) {
  if (!spec.precision) return otherwise;
  if (*spec.precision > kMaxPrecision)
    throw UserError("format: expected at most {} digits, got {}", kMaxPrecision, *spec.precision);
  return static_cast<int>(*spec.precision);
}

std::string grouped(std::string digits, char separator) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, separator);
  return digits;
}

std::string in_base(std::uint64_t value, char type) {
  if (type == 'x') return fmt::format("{:x}", value);
  if (type == 'X') return fmt::format("{:X}", value);
  if (type == 'o') return fmt::format("{:o}", value);
  if (type == 'b') return fmt::format("{:b}", value);
  return std::to_string(value);
}

void add_padded(TextBuilder& out, const Spec& spec, std::string_view sign, std::string_view body,
                char align) {
  const std::int64_t size = count_code_points(sign) + count_code_points(body);
  const std::int64_t missing = std::max<std::int64_t>(0, spec.width - size);
  const std::int64_t before = align == '<' || align == '=' ? 0 : align == '^' ? missing / 2 : missing;
  out.repeat(spec.fill, before);
  out.add(sign);
  if (align == '=') out.repeat(spec.fill, missing);
  out.add(body);
  if (align != '=') out.repeat(spec.fill, missing - before);
}

void add_number(TextBuilder& out, const Spec& spec, bool negative, std::string body,
                std::string_view prefix = {}) {
  if (spec.grouping != '\0') {
    if (spec.align == '=' && spec.fill == "0" && spec.width > 0)
      throw UserError("format: zeros in front of grouped digits are not supported");
    body = grouped(std::move(body), spec.grouping);
  }
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  sign += prefix;
  add_padded(out, spec, sign, body, spec.align == '\0' ? '>' : spec.align);
}

void add_integer(TextBuilder& out, const Spec& spec, std::int64_t value) {
  const auto magnitude =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const bool has_prefix =
      spec.alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b');
  const std::string prefix = has_prefix ? std::string("0") + spec.type : "";
  add_number(out, spec, value < 0, in_base(magnitude, spec.type), prefix);
}

void add_float(TextBuilder& out, const Spec& spec, double value) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::abs(value);
  std::string body;
  if (spec.alternate) throw UserError("format: # for floats is not supported");
  if (!std::isfinite(value)) {
    body = std::isnan(value) ? "nan" : "inf";
    if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') body = python::to_upper(body);
  } else if (spec.type == '\0' && !spec.precision) {
    body = float_repr(magnitude);
  } else if (spec.type == '\0') {
    throw UserError("format: a precision without a type is not supported; try f or g");
  } else if (spec.type == '%') {
    body = fixed(magnitude * 100, 'f', precision_of(spec, 6));
  } else {
    const int least = spec.type == 'g' || spec.type == 'G' ? 1 : 0;
    body = fixed(magnitude, spec.type, std::max(precision_of(spec, 6), least));
  }
  if (spec.type == '%') body += "%";
  add_number(out, spec, negative, std::move(body));
}

void add_text(TextBuilder& out, const Spec& spec, std::string_view text, char align) {
  if (spec.precision) {
    std::size_t end = 0;
    for (std::int64_t i = 0; i < *spec.precision && end < text.size(); ++i) next_code_point(text, end);
    text = text.substr(0, end);
  }
  add_padded(out, spec, "", text, align);
}

// Reads a format from left to right.
struct Reader {
  std::string_view text;
  std::size_t at = 0;

  bool ended() const { return at >= text.size(); }
  char peek() const { return ended() ? '\0' : text[at]; }
  bool skip(char c) {
    if (peek() != c || ended()) return false;
    ++at;
    return true;
  }
  std::optional<std::int64_t> number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    std::int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (text[at++] - '0');
      if (value > (std::int64_t{1} << 32U)) throw UserError("format: expected a smaller width");
    }
    return value;
  }
};

class PercentFormat {
 public:
  PercentFormat(Heap& heap, std::string_view format, const Value& values)
      : heap_(heap), reader_{format}, values_(values), out_(heap) {
    const Sequence* list = as_list(values);
    tuple_ = list != nullptr && list->form == Sequence::Form::kTuple ? list : nullptr;
  }

  std::string run() {
    while (!reader_.ended()) {
      const std::size_t percent = std::min(reader_.text.find('%', reader_.at), reader_.text.size());
      out_.add(reader_.text.substr(reader_.at, percent - reader_.at));
      reader_.at = percent;
      if (reader_.skip('%')) conversion();
    }
    // Values that Python treats as mappings may stay unused.
    const bool may_stay = as_dict(values_) != nullptr || as_list(values_) != nullptr ||
                          is_undefined(values_) || get_if<RangePtr>(values_) != nullptr;
    const bool all_used = tuple_ != nullptr ? used_ == tuple_->items.size() : used_ > 0 || may_stay;
    if (!by_name_ && !all_used)
      throw UserError("%: expected as many values as the format has places, got more");
    return std::move(out_.text());
  }

 private:
  Value next() {
    if (tuple_ != nullptr) {
      if (used_ < tuple_->items.size()) return tuple_->items[used_++];
    } else if (used_++ == 0) {
      return values_;
    }
    throw UserError("%: expected as many values as the format has places, got fewer");
  }

  std::int64_t star_or_number(std::int64_t otherwise) {
    if (!reader_.skip('*')) return reader_.number().value_or(otherwise);
    const auto number = as_integer(next());
    if (!number) throw UserError("%: expected an integer for *, got something else");
    return *number;
  }

  void conversion() {
    std::optional<Value> named;
    if (reader_.skip('(')) named = by_name();
    Spec spec;
    bool left = false;
    bool zero = false;
    for (;; ++reader_.at) {
      const char flag = reader_.peek();
      if (flag == '-') {
        left = true;
      } else if (flag == '0') {
        zero = true;
      } else if (flag == '+') {
        spec.sign = '+';
      } else if (flag == ' ') {
        spec.sign = spec.sign == '+' ? '+' : ' ';
      } else if (flag == '#') {
        spec.alternate = true;
      } else {
        break;
      }
    }
    spec.width = star_or_number(0);
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (reader_.skip('.')) spec.precision = std::max<std::int64_t>(0, star_or_number(0));
    while (reader_.peek() == 'l' || reader_.peek() == 'h' || reader_.peek() == 'L') ++reader_.at;
    if (reader_.ended()) throw UserError("%: expected a conversion after %, got the end");
    spec.type = reader_.text[reader_.at++];
    if (spec.type == '%') return out_.add("%");
    spec.align = left ? '<' : zero ? '=' : '>';
    if (zero && !left) spec.fill.assign(1, '0');
    convert(spec, named ? *named : next());
  }

  Value by_name() {
    const Dict* dict = as_dict(values_);
    if (dict == nullptr) throw UserError("%: expected a dict for names, got {}", type_name(values_));
    by_name_ = true;
    const std::size_t from = reader_.at;
    for (int open = 1; open > 0; ++reader_.at) {
      if (reader_.ended()) throw UserError("%: expected ) after a name, got the end");
      open += reader_.peek() == '(' ? 1 : reader_.peek() == ')' ? -1 : 0;
    }
    const std::string_view name = reader_.text.substr(from, reader_.at - 1 - from);
    const Value* found = find(*dict, name);
    if (found == nullptr) throw UserError("%: expected a value named {}, got none", name);
    return *found;
  }

  void convert(Spec spec, const Value& value) {
    if (spec.type == 's' || spec.type == 'r') {
      spec.fill.assign(1, ' ');
      const std::string text = spec.type == 's' ? str(heap_, value) : repr(heap_, value);
      return add_text(out_, spec, text, spec.align == '<' ? '<' : '>');
    }
    if (spec.type == 'c') {
      const Text* text = as_text(value);
      if (text == nullptr || text->length != 1)
        throw UserError("%c: expected one character, got something else");
      spec.fill.assign(1, ' ');
      spec.precision.reset();
      return add_text(out_, spec, text->bytes, spec.align == '<' ? '<' : '>');
    }
    if (is_undefined(value)) fail_undefined(value);
    constexpr std::string_view kIntegers = "diuxXo";
    constexpr std::string_view kFloats = "eEfFgG";
    if (kIntegers.find(spec.type) != std::string_view::npos) return convert_integer(spec, value);
    if (kFloats.find(spec.type) == std::string_view::npos) throw UserError("%{} is not supported", spec.type);
    const auto number = as_number(value);
    if (!number) throw UserError("%{}: expected a number, got {}", spec.type, type_name(value));
    add_float(out_, spec, *number);
  }

  void convert_integer(Spec spec, const Value& value) {
    std::optional<std::int64_t> number = as_integer(value);
    const auto* real = get_if<double>(value);
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (real != nullptr && decimal && std::isfinite(*real) && std::abs(*real) < 0x1p63)
      number = static_cast<std::int64_t>(*real);
    if (!number) throw UserError("%{}: expected an integer, got {}", spec.type, type_name(value));
    if (spec.precision) throw UserError("%: a precision for integers is not supported");
    add_integer(out_, spec, *number);
  }

  Heap& heap_;
  Reader reader_;
  const Value& values_;
  const Sequence* tuple_ = nullptr;
  std::size_t used_ = 0;
  bool by_name_ = false;
  TextBuilder out_;
};

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

Spec parsed_spec(std::string_view text) {
  Spec spec;
  if (!text.empty()) {
    std::size_t after = 0;
    next_code_point(text, after);
    if (after < text.size() && is_align(text[after])) {
      spec.fill = std::string(text.substr(0, after));
      text.remove_prefix(after);
    }
  }
  Reader reader{text};
  if (is_align(reader.peek())) spec.align = reader.text[reader.at++];
  if (reader.peek() == '+' || reader.peek() == '-' || reader.peek() == ' ')
    spec.sign = reader.text[reader.at++];
  spec.alternate = reader.skip('#');
  if (reader.skip('0') && spec.align == '\0') {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  spec.width = reader.number().value_or(0);
  if (reader.peek() == ',' || reader.peek() == '_') spec.grouping = reader.text[reader.at++];
  if (reader.skip('.')) {
    spec.precision = reader.number();
    if (!spec.precision) throw UserError("format: expected a precision after the dot, got none");
  }
  if (!reader.ended()) spec.type = reader.text[reader.at++];
  if (!reader.ended()) throw UserError("format: expected a format such as >10 or .2f, got {}", text);
  return spec;
}

void add_formatted(Heap& heap, TextBuilder& out, std::string_view format, const Value& value) {
  if (format.empty()) return out.add(str(heap, value));
  Spec spec = parsed_spec(format);
  constexpr std::string_view kIntegers = "dxXob";
  constexpr std::string_view kFloats = "eEfFgG%";
  const auto integer = as_integer(value);
  const bool as_bool = get_if<bool>(value) != nullptr && spec.type == '\0';
  if (const Text* text = as_text(value)) {
    const bool is_plain =
        (spec.type == '\0' || spec.type == 's') && spec.sign == '-' && spec.grouping == '\0';
    if (!is_plain || spec.align == '=')
      throw UserError("format: expected a format for a text, got {}", format);
    return add_text(out, spec, text->bytes, spec.align == '\0' ? '<' : spec.align);
  }
  if (integer && !as_bool && (spec.type == '\0' || kIntegers.find(spec.type) != std::string_view::npos)) {
    if (spec.precision) throw UserError("format: expected no precision for an integer, got {}", format);
    return add_integer(out, spec, *integer);
  }
  const auto number = as_number(value);
  const bool as_float = spec.type == '\0' ? get_if<double>(value) != nullptr
                                          : kFloats.find(spec.type) != std::string_view::npos;
  if (number && as_float) return add_float(out, spec, *number);
  throw UserError("format: {} of a {} is not supported", format, type_name(value));
}

class BraceFormat {
 public:
  BraceFormat(Evaluator& evaluator, std::string_view format, const Arguments& arguments)
      : evaluator_(evaluator), reader_{format}, arguments_(arguments), out_(evaluator.heap()) {}

  std::string run() {
    while (!reader_.ended()) {
      const std::size_t brace = std::min(reader_.text.find_first_of("{}", reader_.at), reader_.text.size());
      out_.add(reader_.text.substr(reader_.at, brace - reader_.at));
      reader_.at = brace;
      if (reader_.ended()) break;
      const char c = reader_.text[reader_.at++];
      if (reader_.skip(c)) {
        out_.add(std::string_view(&c, 1));
      } else if (c == '}') {
        throw UserError("format: expected {{ before }}, got none");
      } else {
        field();
      }
    }
    return std::move(out_.text());
  }

 private:
  void field() {
    const std::size_t close = reader_.text.find('}', reader_.at);
    if (close == std::string_view::npos) throw UserError("format: expected }} after {{, got none");
    const std::string_view inside = reader_.text.substr(reader_.at, close - reader_.at);
    if (inside.find('{') != std::string_view::npos)
      throw UserError("format: fields within fields are not supported");
    reader_.at = close + 1;
    const std::size_t name_end = std::min(inside.find_first_of("!:"), inside.size());
    Value value = named(inside.substr(0, name_end));
    std::string_view rest = inside.substr(name_end);
    Heap& heap = evaluator_.heap();
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest[1] != 'r' && rest[1] != 's'))
        throw UserError("format: expected !r or !s, got {}", rest);
      value = heap.text(rest[1] == 'r' ? repr(heap, value) : str(heap, value));
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') throw UserError("format: expected : after !r or !s, got {}", rest);
    }
    add_formatted(heap, out_, rest.empty() ? rest : rest.substr(1), value);
  }

  Value named(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, end);
    Value value = first_value(first);
    path.remove_prefix(end);
    while (!path.empty()) {
      const bool is_item = path[0] == '[';
      path.remove_prefix(1);
      const std::size_t stop = std::min(path.find_first_of(is_item ? "]" : ".["), path.size());
      const std::string_view name = path.substr(0, stop);
      if (name.empty() || (is_item && stop == path.size()))
        throw UserError("format: expected a name in a field, got none");
      const auto number = is_item ? parsed_integer(name, 10) : std::nullopt;
      const Value key = number ? Value(*number) : evaluator_.heap().text(std::string(name));
      value =
          is_item ? get_item(evaluator_.heap(), value, key) : get_attribute(evaluator_.heap(), value, name);
      path.remove_prefix(is_item ? stop + 1 : stop);
    }
    return value;
  }

  Value first_value(std::string_view name) {
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    if (name.empty() || is_number) {
      if (is_number ? next_ > 0 : by_number_)
        throw UserError("format: expected fields with numbers or without, got both");
      by_number_ = by_number_ || is_number;
      const auto at = static_cast<std::size_t>(is_number ? *parsed_integer(name, 10)
                                                         : static_cast<std::int64_t>(next_++));
      if (at >= arguments_.positional.size()) throw UserError("format: expected value {}, got none", at);
      return arguments_.positional[at];
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) return value;
    }
    throw UserError("format: expected a value named {}, got none", name);
  }

  Evaluator& evaluator_;
  Reader reader_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  bool by_number_ = false;
  TextBuilder out_;
};

}  // namespace

std::string fixed(double value, char type, int precision) {
  const std::array<char, 5> format{'%', '.', '*', type, '\0'};
  std::array<char, 1024> buffer{};  // 309 digits before the point, at most 400 after it
  const int size = std::snprintf(buffer.data(), buffer.size(), format.data(), precision, value);
  ROUTEOPD_INVARIANT(size >= 0 && static_cast<std::size_t>(size) < buffer.size());
  return {buffer.data(), static_cast<std::size_t>(size)};
}

std::string percent_format(Evaluator& evaluator, std::string_view format, const Value& values) {
  return PercentFormat(evaluator.heap(), format, values).run();
}

std::string brace_format(Evaluator& evaluator, std::string_view format, const Arguments& arguments) {
  return BraceFormat(evaluator, format, arguments).run();
}

}  // namespace routeopd::jinja
