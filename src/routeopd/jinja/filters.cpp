// Finding a filter, binding arguments, and the filters of numbers and of any value.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/filters.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "routeopd/base/error.h"
#include "routeopd/jinja/json_text.h"
#include "routeopd/jinja/literals.h"
#include "routeopd/jinja/operators.h"
#include "routeopd/jinja/printing.h"
#include "routeopd/jinja/string_format.h"

namespace routeopd::jinja {
namespace {

Value filter_abs(Interpreter&, const Value& value, Arguments& arguments) {
  bound("abs", arguments, {});
  if (const auto number = as_integer(value)) return *number < 0 ? negated(*number) : Value(*number);
  if (const auto* number = get_if<double>(value)) return std::abs(*number);
  if (is_undefined(value)) fail_undefined(value);
  throw UserError("abs: expected a number, got {}", type_name(value));
}

Value filter_default(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("default", arguments, {"default_value", "boolean"});
  const bool falsy_too = given[1] && truth(*given[1]);
  if (!is_undefined(value) && !(falsy_too && !truth(value))) return value;
  return given[0] ? *given[0] : interpreter.heap().text("");
}

// int(value), where a text may also be a float's; the default for what is neither.
Value filter_int(Interpreter&, const Value& value, Arguments& arguments) {
  const auto given = bound("int", arguments, {"default", "base"});
  if (is_undefined(value)) fail_undefined(value);
  if (const auto number = as_integer(value)) return *number;
  std::optional<double> real = as_number(value);
  if (real && std::isinf(*real)) throw UserError("int: expected a finite number, got {}", float_repr(*real));
  if (const Text* text = as_text(value)) {
    const std::int64_t base = given[1] ? integer_argument("int", *given[1]) : 10;
    if (const auto number = parsed_integer(text->bytes, base)) return *number;
    real = parsed_float(text->bytes);
  }
  const bool has_integer = real && std::isfinite(*real);
  if (has_integer) {
    if (std::abs(*real) >= 0x1p63)
      throw UserError("int: expected a number below 2^63, got {}", float_repr(*real));
    return static_cast<std::int64_t>(*real);
  }
  return given[0] ? *given[0] : Value(std::int64_t{0});
}

Value filter_float(Interpreter&, const Value& value, Arguments& arguments) {
  const auto given = bound("float", arguments, {"default"});
  if (is_undefined(value)) fail_undefined(value);
  if (const auto number = as_number(value)) return *number;
  if (const Text* text = as_text(value)) {
    if (const auto number = parsed_float(text->bytes)) return *number;
  }
  return given[0] ? *given[0] : Value(0.0);
}

// round(value, digits) of Python: to even where two are equally near.
Value rounded(const Value& value, std::int64_t digits) {
  if (const auto whole = as_integer(value)) {
    if (digits >= 0) return *whole;
    if (digits < -18) return std::int64_t{0};
    std::int64_t unit = 1;
    for (std::int64_t i = 0; i < -digits; ++i) unit *= 10;
    std::int64_t down = *whole - ((*whole % unit) + unit) % unit;
    const std::int64_t rest = *whole - down;
    const bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    return up ? down + unit : down;
  }
  const auto number = as_number(value);
  if (!number) {
    if (is_undefined(value)) fail_undefined(value);
    throw UserError("round: expected a number, got {}", type_name(value));
  }
  if (!std::isfinite(*number) || digits > 330) return *number;
  if (digits < 0) {
    if (digits < -308) return std::copysign(0.0, *number);
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(*number / unit) * unit;
  }
  return std::strtod(fixed(*number, 'f', static_cast<int>(digits)).c_str(), nullptr);
}

Value filter_round(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("round", arguments, {"precision", "method"});
  const std::int64_t digits = given[0] ? integer_argument("round", *given[0]) : 0;
  const std::string method = given[1] ? str(interpreter.heap(), *given[1]) : "common";
  if (method == "common") return rounded(value, digits);
  if (method != "ceil" && method != "floor")
    throw UserError("round: expected the method common, ceil or floor, got {}", method);
  const Value unit = binary(interpreter, "**", std::int64_t{10}, digits);
  const auto scaled = as_number(binary(interpreter, "*", value, unit));
  if (!scaled) throw UserError("round: expected a number, got {}", type_name(value));
  const double whole = method == "ceil" ? std::ceil(*scaled) : std::floor(*scaled);
  return whole / *as_number(unit);
}

Value filter_string(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("string", arguments, {});
  return soft_text(interpreter.heap(), value);
}

Value filter_length(Interpreter&, const Value& value, Arguments& arguments) {
  bound("length", arguments, {});
  return length_of(value);
}

Value filter_tojson(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Heap& heap = interpreter.heap();
  JsonStyle style;
  style.ensure_ascii = given[0] && truth(*given[0]);
  style.sort_keys = given[3] && truth(*given[3]);
  if (given[1] && !is_none(*given[1])) {
    if (const Text* text = as_text(*given[1])) {
      style.indent = text->bytes;
    } else {
      TextBuilder spaces(heap);
      spaces.repeat(" ", integer_argument("tojson: indent", *given[1]));
      style.indent = std::move(spaces.text());
    }
    style.item_separator = std::string(",");
  }
  if (given[2] && !is_none(*given[2])) {
    const Values separators = items_of(heap, *given[2]);
    if (separators.size() != 2) throw UserError("tojson: expected two separators, got {}", separators.size());
    style.item_separator = text_argument("tojson: separators", separators[0]).bytes;
    style.key_separator = text_argument("tojson: separators", separators[1]).bytes;
  }
  return heap.text(json_text(heap, value, style));
}

}  // namespace

FilterFunction* find_filter(std::string_view name) {
  static const auto* const table = [] {
    auto* made = new std::unordered_map<std::string_view, FilterFunction*>();
    for (const auto filters : {text_filters(), list_filters(), number_filters()}) {
      for (const NamedFilter& filter : filters) made->emplace(filter.name, filter.run);
    }
    return made;
  }();
  const auto found = table->find(name);
  return found == table->end() ? nullptr : found->second;
}

std::span<const NamedFilter> number_filters() {
  static constexpr std::array<NamedFilter, 10> kFilters{{
      {"abs", filter_abs},
      {"default", filter_default},
      {"d", filter_default},
      {"int", filter_int},
      {"float", filter_float},
      {"round", filter_round},
      {"string", filter_string},
      {"length", filter_length},
      {"count", filter_length},
      {"tojson", filter_tojson},
  }};
  return kFilters;
}

std::vector<std::optional<Value>> bound(std::string_view what, Arguments& arguments,
                                        std::initializer_list<std::string_view> names, std::size_t required) {
  if (arguments.positional.size() > names.size())
    throw UserError("{}: expected at most {} arguments, got {}", what, names.size(),
                    arguments.positional.size());
  std::vector<std::optional<Value>> given(names.size());
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) given[i] = std::move(arguments.positional[i]);
  for (auto& [name, value] : arguments.named) {
    std::size_t at = 0;
    while (at < names.size() && *(names.begin() + at) != name) ++at;
    if (at == names.size()) throw UserError("{}: argument {} is not supported", what, name);
    if (given[at]) throw UserError("{}: expected {} once, got it twice", what, name);
    given[at] = std::move(value);
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!given[i]) throw UserError("{}: expected {}, got none", what, *(names.begin() + i));
  }
  return given;
}

std::int64_t integer_argument(std::string_view what, const Value& value) {
  if (is_undefined(value)) fail_undefined(value);
  const auto number = as_integer(value);
  if (!number) throw UserError("{}: expected an integer, got {}", what, type_name(value));
  return *number;
}

const Text& text_argument(std::string_view what, const Value& value) {
  const Text* text = as_text(value);
  if (text == nullptr) {
    if (is_undefined(value)) fail_undefined(value);
    throw UserError("{}: expected a text, got {}", what, type_name(value));
  }
  return *text;
}

}  // namespace routeopd::jinja
