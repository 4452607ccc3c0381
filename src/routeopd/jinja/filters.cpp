// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/filters.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "routeopd/base/display.h"
#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/conversions.h"
#include "routeopd/jinja/list_filters.h"
#include "routeopd/jinja/operators.h"
#include "routeopd/jinja/string_format.h"
#include "routeopd/jinja/text_methods.h"

namespace routeopd::jinja {
namespace {

Value filter_abs(Evaluator&, const Value& value, Arguments& arguments) {
  bound("abs", arguments, {});
  if (const auto number = as_integer(value)) return *number < 0 ? negated(*number) : Value(*number);
  if (const auto* number = get_if<double>(value)) return std::abs(*number);
  if (is_undefined(value)) fail_undefined(value);
  throw UserError("abs: expected a number, got {}", type_name(value));
}

Value filter_default(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("default", arguments, {"default_value", "boolean"});
  const bool falsy_too = given[1] && truth(*given[1]);
  if (!is_undefined(value) && !(falsy_too && !truth(value))) return value;
  return given[0] ? *given[0] : evaluator.heap().text("");
}

// int(value); a text may also spell a float. The default for anything else.
Value filter_int(Evaluator&, const Value& value, Arguments& arguments) {
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

Value filter_float(Evaluator&, const Value& value, Arguments& arguments) {
  const auto given = bound("float", arguments, {"default"});
  if (is_undefined(value)) fail_undefined(value);
  if (const auto number = as_number(value)) return *number;
  if (const Text* text = as_text(value)) {
    if (const auto number = parsed_float(text->bytes)) return *number;
  }
  return given[0] ? *given[0] : Value(0.0);
}

// Python's round(value, digits): ties go to even.
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

Value filter_round(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("round", arguments, {"precision", "method"});
  const std::int64_t digits = given[0] ? integer_argument("round", *given[0]) : 0;
  const std::string method = given[1] ? str(evaluator.heap(), *given[1]) : "common";
  if (method == "common") return rounded(value, digits);
  if (method != "ceil" && method != "floor")
    throw UserError("round: expected the method common, ceil or floor, got {}", method);
  const Value unit = binary(evaluator, "**", std::int64_t{10}, digits);
  const auto scaled = as_number(binary(evaluator, "*", value, unit));
  if (!scaled) throw UserError("round: expected a number, got {}", type_name(value));
  const double whole = method == "ceil" ? std::ceil(*scaled) : std::floor(*scaled);
  return whole / *as_number(unit);
}

Value filter_string(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("string", arguments, {});
  return soft_text(evaluator.heap(), value);
}

Value filter_length(Evaluator&, const Value& value, Arguments& arguments) {
  bound("length", arguments, {});
  return length_of(value);
}

Value filter_tojson(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Heap& heap = evaluator.heap();
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

// Applies `change` to the value as a text; the result is marked as escaped if the value was.
template <class Change>
Value changed(Evaluator& evaluator, const Value& value, const Change& change) {
  Heap& heap = evaluator.heap();
  const Value soft = soft_text(heap, value);
  const Text& text = *as_text(soft);
  heap.spend_bytes(text.bytes.size());
  return heap.text(change(text), text.markup);
}

Value filter_upper(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("upper", arguments, {});
  return changed(evaluator, value, [](const Text& text) { return python::to_upper(text.bytes); });
}

Value filter_lower(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("lower", arguments, {});
  return changed(evaluator, value, [](const Text& text) { return python::to_lower(text.bytes); });
}

Value filter_capitalize(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("capitalize", arguments, {});
  return changed(evaluator, value, [](const Text& text) { return python::to_capitalized(text.bytes); });
}

bool begins_word(char32_t point) {
  return point == '-' || point == '(' || point == '{' || point == '[' || point == '<' ||
         python::is_space(point);
}

// Words are separated by whitespace and - ( { [ <; unlike in str.title(), "it's" is one word.
Value filter_title(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("title", arguments, {});
  const Value plain = evaluator.heap().text(str(evaluator.heap(), value));
  return changed(evaluator, plain, [](const Text& text) {
    std::string out;
    const std::string_view bytes = text.bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      std::size_t end = at;
      const bool between = begins_word(next_code_point(bytes, end));
      const std::size_t head = end;
      for (std::size_t after = end; after < bytes.size(); end = after) {
        if (begins_word(next_code_point(bytes, after)) != between) break;
      }
      out += python::to_upper(bytes.substr(at, head - at));
      out += python::to_lower(bytes.substr(head, end - head));
      at = end;
    }
    return out;
  });
}

Value filter_trim(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("trim", arguments, {"chars"});
  const Text* characters = given[0] && !is_none(*given[0]) ? &text_argument("trim", *given[0]) : nullptr;
  return changed(evaluator, value,
                 [&](const Text& text) { return std::string(stripped(text.bytes, characters, true, true)); });
}

Value filter_replace(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t count = given[2] && !is_none(*given[2]) ? integer_argument("replace", *given[2]) : -1;
  return heap.text(replaced(heap, str(heap, value), str(heap, *given[0]), str(heap, *given[1]), count));
}

Value filter_escape(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("escape", arguments, {});
  Heap& heap = evaluator.heap();
  if (const Text* text = as_text(value); text != nullptr && text->markup) return value;
  return heap.text(html_escaped(str(heap, value)), true);
}

Value filter_forceescape(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("forceescape", arguments, {});
  Heap& heap = evaluator.heap();
  return heap.text(html_escaped(str(heap, value)), true);
}

Value filter_safe(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("safe", arguments, {});
  Heap& heap = evaluator.heap();
  return heap.text(str(heap, value), true);
}

Value filter_indent(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("indent", arguments, {"width", "first", "blank"});
  Heap& heap = evaluator.heap();
  const Text& text = text_argument("indent", value);
  if (text.markup) throw UserError("indent of an escaped text is not supported");
  TextBuilder margin(heap);
  if (given[0] && as_text(*given[0]) != nullptr) {
    margin.add(as_text(*given[0])->bytes);
  } else {
    margin.repeat(" ", given[0] ? integer_argument("indent", *given[0]) : 4);
  }
  const bool first = given[1] && truth(*given[1]);
  const bool blank = given[2] && truth(*given[2]);
  const std::string with_end = text.bytes + "\n";
  TextBuilder out(heap);
  bool is_first = true;
  for (const std::string_view line : split_lines(with_end, false)) {
    if (!is_first) out.add("\n");
    const bool indented = is_first ? first : blank || !line.empty();
    if (indented) out.add(margin.text());
    out.add(line);
    is_first = false;
  }
  return heap.text(std::move(out.text()));
}

Value filter_center(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("center", arguments, {"width"});
  const std::int64_t width = given[0] ? integer_argument("center", *given[0]) : 80;
  return changed(evaluator, value,
                 [&](const Text& text) { return padded(evaluator.heap(), text, width, " ", '^'); });
}

Value filter_truncate(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Heap& heap = evaluator.heap();
  const Text& text = text_argument("truncate", value);
  if (text.markup) throw UserError("truncate of an escaped text is not supported");
  const std::int64_t length = given[0] ? integer_argument("truncate", *given[0]) : 255;
  const Value end = given[2] ? *given[2] : heap.text("...");
  const Text& tail = text_argument("truncate", end);
  const std::int64_t leeway = given[3] && !is_none(*given[3]) ? integer_argument("truncate", *given[3]) : 5;
  if (length < tail.length || leeway < 0)
    throw UserError("truncate: expected a length of at least {} and a leeway of at least 0, got {} and {}",
                    tail.length, length, leeway);
  if (text.length - leeway <= length) return value;
  const Value head = slice(heap, value, None{}, length - tail.length, None{});
  std::string kept = as_text(head)->bytes;
  const bool whole_words = !given[1] || !truth(*given[1]);
  if (whole_words) {
    if (const std::size_t space = kept.rfind(' '); space != std::string::npos) kept.resize(space);
  }
  return heap.text(kept + tail.bytes);
}

Value filter_wordcount(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("wordcount", arguments, {});
  const std::string text = str(evaluator.heap(), value);
  evaluator.heap().spend_bytes(text.size());
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    const bool is_word = point == '_' || python::is_alpha(point) || python::is_decimal(point) ||
                         python::is_digit(point) || python::is_numeric(point);
    if (is_word && !inside) ++words;
    inside = is_word;
  }
  return words;
}

Value filter_format(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  if (!arguments.positional.empty() && !arguments.named.empty())
    throw UserError("format: expected values by position or by name, got both");
  const std::string format = str(heap, value);
  Value values;
  if (arguments.named.empty()) {
    values = heap.tuple(std::move(arguments.positional));
  } else {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [name, each] : arguments.named) entries.emplace_back(heap.text(name), std::move(each));
    values = heap.dict(std::move(entries));
  }
  return heap.text(percent_format(evaluator, format, values));
}

constexpr std::array<NamedFilter, 25> kFilters{{
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
    {"upper", filter_upper},
    {"lower", filter_lower},
    {"capitalize", filter_capitalize},
    {"title", filter_title},
    {"trim", filter_trim},
    {"replace", filter_replace},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_forceescape},
    {"safe", filter_safe},
    {"indent", filter_indent},
    {"center", filter_center},
    {"truncate", filter_truncate},
    {"wordcount", filter_wordcount},
    {"format", filter_format},
}};

}  // namespace

FilterFunction* find_filter(std::string_view name) {
  static const auto* const table = [] {
    auto* made = new std::unordered_map<std::string_view, FilterFunction*>();
    for (const NamedFilter& filter : kFilters) made->emplace(filter.name, filter.run);
    for (const NamedFilter& filter : list_filters()) made->emplace(filter.name, filter.run);
    return made;
  }();
  const auto found = table->find(name);
  return found == table->end() ? nullptr : found->second;
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
