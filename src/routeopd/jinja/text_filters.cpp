// The filters of texts.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "routeopd/base/display.h"
#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/filters.h"
#include "routeopd/jinja/methods.h"
#include "routeopd/jinja/operators.h"
#include "routeopd/jinja/printing.h"
#include "routeopd/jinja/string_format.h"

namespace routeopd::jinja {
namespace {

// The value as a text that stays escaped if it is, changed.
template <class Change>
Value changed(Interpreter& interpreter, const Value& value, const Change& change) {
  Heap& heap = interpreter.heap();
  const Value soft = soft_text(heap, value);
  const Text& text = *as_text(soft);
  heap.spend_bytes(text.bytes.size());
  return heap.text(change(text), text.markup);
}

Value filter_upper(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("upper", arguments, {});
  return changed(interpreter, value, [](const Text& text) { return python::to_upper(text.bytes); });
}

Value filter_lower(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("lower", arguments, {});
  return changed(interpreter, value, [](const Text& text) { return python::to_lower(text.bytes); });
}

Value filter_capitalize(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("capitalize", arguments, {});
  return changed(interpreter, value, [](const Text& text) { return python::to_capitalized(text.bytes); });
}

bool begins_word(char32_t point) {
  return point == '-' || point == '(' || point == '{' || point == '[' || point == '<' ||
         python::is_space(point);
}

// Words lie between whitespace and - ( { [ <: unlike str.title(), "it's" stays one.
Value filter_title(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("title", arguments, {});
  const Value plain = interpreter.heap().text(str(interpreter.heap(), value));
  return changed(interpreter, plain, [](const Text& text) {
    std::string out;
    const std::string_view bytes = text.bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      std::size_t end = at;
      const bool between = begins_word(next_code_point(bytes, end));
      const std::size_t head = end;
      for (std::size_t behind = end; behind < bytes.size(); end = behind) {
        if (begins_word(next_code_point(bytes, behind)) != between) break;
      }
      out += python::to_upper(bytes.substr(at, head - at));
      out += python::to_lower(bytes.substr(head, end - head));
      at = end;
    }
    return out;
  });
}

Value filter_trim(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("trim", arguments, {"chars"});
  const Text* characters = given[0] && !is_none(*given[0]) ? &text_argument("trim", *given[0]) : nullptr;
  return changed(interpreter, value,
                 [&](const Text& text) { return std::string(stripped(text.bytes, characters, true, true)); });
}

Value filter_replace(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  Heap& heap = interpreter.heap();
  const auto given = bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t count = given[2] && !is_none(*given[2]) ? integer_argument("replace", *given[2]) : -1;
  return heap.text(replaced(heap, str(heap, value), str(heap, *given[0]), str(heap, *given[1]), count));
}

Value filter_escape(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("escape", arguments, {});
  Heap& heap = interpreter.heap();
  if (const Text* text = as_text(value); text != nullptr && text->markup) return value;
  return heap.text(html_escaped(str(heap, value)), true);
}

Value filter_forceescape(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("forceescape", arguments, {});
  Heap& heap = interpreter.heap();
  return heap.text(html_escaped(str(heap, value)), true);
}

Value filter_safe(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("safe", arguments, {});
  Heap& heap = interpreter.heap();
  return heap.text(str(heap, value), true);
}

Value filter_indent(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("indent", arguments, {"width", "first", "blank"});
  Heap& heap = interpreter.heap();
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

Value filter_center(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("center", arguments, {"width"});
  const std::int64_t width = given[0] ? integer_argument("center", *given[0]) : 80;
  return changed(interpreter, value,
                 [&](const Text& text) { return padded(interpreter.heap(), text, width, " ", '^'); });
}

Value filter_truncate(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Heap& heap = interpreter.heap();
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

Value filter_wordcount(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("wordcount", arguments, {});
  const std::string text = str(interpreter.heap(), value);
  interpreter.heap().spend_bytes(text.size());
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

Value filter_format(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  Heap& heap = interpreter.heap();
  if (!arguments.positional.empty() && !arguments.named.empty())
    throw UserError("format: expected values by place or by name, got both");
  const std::string format = str(heap, value);
  Value values;
  if (arguments.named.empty()) {
    values = heap.tuple(std::move(arguments.positional));
  } else {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [name, each] : arguments.named) entries.emplace_back(heap.text(name), std::move(each));
    values = heap.dict(std::move(entries));
  }
  return heap.text(percent_format(interpreter, format, values));
}

}  // namespace

std::span<const NamedFilter> text_filters() {
  static constexpr std::array<NamedFilter, 15> kFilters{{
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
  return kFilters;
}

}  // namespace routeopd::jinja
