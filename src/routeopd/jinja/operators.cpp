// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "routeopd/base/display.h"
#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/evaluator.h"
#include "routeopd/jinja/string_format.h"

namespace routeopd::jinja {
namespace {

constexpr std::size_t kShortPart = 32;

// long double holds every int64 and every double exactly on x86-64, so that 2**53 + 1 > 2.0**53 as in Python.
std::optional<long double> exact(const Value& value) {
  if (const auto number = as_integer(value)) return static_cast<long double>(*number);
  if (const auto* number = get_if<double>(value)) return static_cast<long double>(*number);
  return std::nullopt;
}

bool equal_entries(Heap& heap, const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [name, at] : left.index) {
    const auto found = right.index.find(name);
    if (found == right.index.end()) return false;
    if (!equal(heap, left.entries[at].second, right.entries[found->second].second)) return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  if (left.length != right.length) return false;
  if (left.length == 0) return true;
  return left.start == right.start && (left.length == 1 || left.step == right.step);
}

[[noreturn]] void fail_order(const Value& left, const Value& right) {
  if (is_undefined(left)) fail_undefined(left);
  if (is_undefined(right)) fail_undefined(right);
  throw UserError("expected two values that can be ordered, got {} and {}", type_name(left),
                  type_name(right));
}

template <class Comparison>
bool ordered(Heap& heap, const Value& left, const Value& right, const Comparison& compared) {
  heap.spend(1);
  const auto left_number = exact(left);
  const auto right_number = exact(right);
  if (left_number && right_number) return compared(*left_number, *right_number);
  const Text* left_text = as_text(left);
  const Text* right_text = as_text(right);
  if (left_text != nullptr && right_text != nullptr) {
    heap.spend_bytes(std::min(left_text->bytes.size(), right_text->bytes.size()));
    // UTF-8 bytes sort as code points do.
    return compared(left_text->bytes.compare(right_text->bytes), 0);
  }
  const Sequence* left_list = as_list(left);
  const Sequence* right_list = as_list(right);
  if (left_list == nullptr || right_list == nullptr || left_list->form != right_list->form)
    fail_order(left, right);
  const std::size_t shared = std::min(left_list->items.size(), right_list->items.size());
  for (std::size_t i = 0; i < shared; ++i) {
    if (!equal(heap, left_list->items[i], right_list->items[i]))
      return ordered(heap, left_list->items[i], right_list->items[i], compared);
  }
  return compared(left_list->items.size(), right_list->items.size());
}

// The algorithm of Knuth, Morris and Pratt.
std::size_t find_long(std::string_view text, std::string_view part) {
  std::vector<std::size_t> border(part.size() + 1, 0);
  for (std::size_t i = 1, matched = 0; i < part.size(); ++i) {
    while (matched > 0 && part[i] != part[matched]) matched = border[matched];
    if (part[i] == part[matched]) ++matched;
    border[i + 1] = matched;
  }
  for (std::size_t i = 0, matched = 0; i < text.size(); ++i) {
    while (matched > 0 && text[i] != part[matched]) matched = border[matched];
    if (text[i] == part[matched]) ++matched;
    if (matched == part.size()) return i + 1 - matched;
  }
  return std::string_view::npos;
}

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

[[noreturn]] void fail_overflow() {
  throw UserError("expected an integer of 64 bits, got a longer one, which is not supported");
}

[[noreturn]] void fail_zero() {
  throw UserError("expected a divisor, got zero");
}

[[noreturn]] void fail_operands(std::string_view name, const Value& left, const Value& right) {
  if (is_undefined(left)) fail_undefined(left);
  if (is_undefined(right)) fail_undefined(right);
  throw UserError("{} is not defined for {} and {}", name, type_name(left), type_name(right));
}

std::int64_t floor_divided(std::int64_t left, std::int64_t right) {
  if (right == 0) fail_zero();
  if (left == kLowest && right == -1) fail_overflow();
  const std::int64_t quotient = left / right;
  return quotient - ((left % right != 0 && (left < 0) != (right < 0)) ? 1 : 0);
}

std::int64_t remainder(std::int64_t left, std::int64_t right) {
  if (right == 0) fail_zero();
  if (right == -1) return 0;
  const std::int64_t rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw UserError("expected a positive power of zero, got a negative one");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  if (base == 0 || base == 1) return exponent == 0 ? std::int64_t{1} : base;
  if (base == -1) return exponent % 2 == 0 ? std::int64_t{1} : std::int64_t{-1};
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {  // at most 63 times: |base| > 1
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return result;
}

Value of_integers(std::string_view name, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool overflow = false;
  if (name == "+") {
    overflow = __builtin_add_overflow(left, right, &result);
  } else if (name == "-") {
    overflow = __builtin_sub_overflow(left, right, &result);
  } else if (name == "*") {
    overflow = __builtin_mul_overflow(left, right, &result);
  } else if (name == "//") {
    result = floor_divided(left, right);
  } else if (name == "%") {
    result = remainder(left, right);
  } else if (name == "**") {
    return integer_power(left, right);
  } else {
    if (right == 0) fail_zero();
    return static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right));
  }
  if (overflow) fail_overflow();
  return result;
}

// Quotient and remainder as Python's float_divmod rounds them.
std::pair<double, double> float_divmod(double left, double right) {
  if (right == 0.0) fail_zero();
  double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0.0) {
    if ((right < 0) != (rest < 0)) {
      rest += right;
      quotient -= 1.0;
    }
  } else {
    rest = std::copysign(0.0, right);
  }
  if (quotient == 0.0) return {std::copysign(0.0, left / right), rest};
  double floored = std::floor(quotient);
  if (quotient - floored > 0.5) floored += 1.0;
  return {floored, rest};
}

double float_power(double base, double exponent) {
  if (base == 0.0 && exponent < 0) throw UserError("expected a positive power of zero, got a negative one");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && std::floor(exponent) != exponent)
    throw UserError("expected a whole power of a negative number; complex numbers are not supported");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent))
    throw UserError("expected a power below 1.8e308, got a larger one");
  return result;
}

Value of_floats(std::string_view name, double left, double right) {
  if (name == "+") return left + right;
  if (name == "-") return left - right;
  if (name == "*") return left * right;
  if (name == "//") return float_divmod(left, right).first;
  if (name == "%") return float_divmod(left, right).second;
  if (name == "**") return float_power(left, right);
  if (right == 0.0) fail_zero();
  return left / right;
}

Value added_texts(Heap& heap, const Text& left, const Text& right) {
  const bool markup = left.markup || right.markup;
  heap.expect_bytes(static_cast<std::int64_t>(left.bytes.size() + right.bytes.size()));
  std::string sum = markup && !left.markup ? html_escaped(left.bytes) : left.bytes;
  sum += markup && !right.markup ? html_escaped(right.bytes) : right.bytes;
  return heap.text(std::move(sum), markup);
}

Value repeated(Heap& heap, const Value& value, std::int64_t times) {
  if (const Text* text = as_text(value)) {
    TextBuilder builder(heap);
    builder.repeat(text->bytes, times);
    return heap.text(std::move(builder.text()), text->markup);
  }
  const Sequence& list = *as_list(value);
  const auto size = static_cast<std::int64_t>(list.items.size());
  Values items;
  if (size > 0 && times > 0) {
    heap.expect_items(times);
    heap.expect_items(times * size);
    items.reserve(static_cast<std::size_t>(times * size));
    for (std::int64_t i = 0; i < times; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return heap.sequence(list.form, std::move(items));
}

// The bound `value` of a slice over `length` items, or `otherwise` for None, clamped into [low, high].
std::int64_t bound_of(const Value& value, std::int64_t length, std::int64_t otherwise, std::int64_t low,
                      std::int64_t high) {
  if (is_none(value)) return otherwise;
  const auto number = as_integer(value);
  if (!number) {
    if (is_undefined(value)) fail_undefined(value);
    throw UserError("expected integers in a slice, got {}", type_name(value));
  }
  return std::clamp(*number < 0 ? std::max(*number, -length - 1) + length : *number, low, high);
}

struct Places {
  std::int64_t start;
  std::int64_t step;
  std::int64_t count;
};

Places places_of(std::int64_t length, const Value& start, const Value& stop, const Value& step_value) {
  std::int64_t step = 1;
  if (!is_none(step_value)) {
    const auto number = as_integer(step_value);
    if (!number && is_undefined(step_value)) fail_undefined(step_value);
    if (!number) throw UserError("expected integers in a slice, got {}", type_name(step_value));
    if (*number == 0) throw UserError("expected a slice's step, got zero");
    step = std::clamp(*number, -length - 1, length + 1);
  }
  if (step > 0) {
    const std::int64_t from = bound_of(start, length, 0, 0, length);
    const std::int64_t to = bound_of(stop, length, length, 0, length);
    return {from, step, from < to ? (to - from - 1) / step + 1 : 0};
  }
  const std::int64_t from = bound_of(start, length, length - 1, -1, length - 1);
  const std::int64_t to = bound_of(stop, length, -1, -1, length - 1);
  return {from, step, from > to ? (from - to - 1) / -step + 1 : 0};
}

std::string sliced_text(Heap& heap, const Text& text, const Places& places) {
  heap.spend_bytes(text.bytes.size());
  const bool is_ascii = text.length == static_cast<std::int64_t>(text.bytes.size());
  if (places.count == 0) return "";
  if (places.step == 1) {
    if (is_ascii)
      return text.bytes.substr(static_cast<std::size_t>(places.start),
                               static_cast<std::size_t>(places.count));
    std::size_t begin = 0;
    for (std::int64_t i = 0; i < places.start; ++i) next_code_point(text.bytes, begin);
    std::size_t end = begin;
    for (std::int64_t i = 0; i < places.count; ++i) next_code_point(text.bytes, end);
    return text.bytes.substr(begin, end - begin);
  }
  std::string part;
  if (is_ascii) {
    for (std::int64_t i = 0; i < places.count; ++i)
      part.push_back(text.bytes[static_cast<std::size_t>(places.start + i * places.step)]);
    return part;
  }
  const Charge charge(heap, 8 * (text.length + 1));
  std::vector<std::size_t> begins;  // of each code point
  begins.reserve(static_cast<std::size_t>(text.length) + 1);
  for (std::size_t at = 0; at < text.bytes.size(); next_code_point(text.bytes, at)) begins.push_back(at);
  begins.push_back(text.bytes.size());
  for (std::int64_t i = 0; i < places.count; ++i) {
    const auto at = static_cast<std::size_t>(places.start + i * places.step);
    part.append(text.bytes, begins[at], begins[at + 1] - begins[at]);
  }
  return part;
}

}  // namespace

std::size_t find_text(Heap& heap, std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.size() > kShortPart) {
    if (part.size() > text.size() - from) return std::string_view::npos;
    const Charge borders(heap, static_cast<std::int64_t>(8 * part.size()));
    const std::size_t found = find_long(text.substr(from), part);
    heap.spend_bytes(8 * part.size() + (found == std::string_view::npos ? text.size() - from : found));
    return found == std::string_view::npos ? found : found + from;
  }
  const std::size_t found = text.find(part, from);
  heap.spend_bytes((found == std::string_view::npos ? text.size() : found) - from);
  return found;
}

std::size_t find_text_right(Heap& heap, std::string_view text, std::string_view part) {
  if (part.size() > text.size()) return std::string_view::npos;
  if (part.size() <= kShortPart) {
    const std::size_t found = text.rfind(part);
    heap.spend_bytes(found == std::string_view::npos ? text.size() : text.size() - found);
    return found;
  }
  const std::string mirrored(text.rbegin(), text.rend());
  const std::string mirrored_part(part.rbegin(), part.rend());
  heap.spend_bytes(2 * text.size() + 8 * part.size());
  const Charge borders(heap, static_cast<std::int64_t>(2 * text.size() + 8 * part.size()));
  const std::size_t found = find_long(mirrored, mirrored_part);
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

bool equal(Heap& heap, const Value& left, const Value& right) {
  heap.spend(1);
  const auto left_number = exact(left);
  const auto right_number = exact(right);
  if (left_number && right_number) return *left_number == *right_number;
  if (left.index() != right.index()) return false;
  if (is_undefined(left) || is_none(left)) return true;
  if (const Text* text = as_text(left)) {
    const std::string& other = as_text(right)->bytes;
    if (text->bytes.size() == other.size()) heap.spend_bytes(other.size());
    return text->bytes == other;
  }
  if (const auto* sequence = get_if<SequencePtr>(left)) {
    const Sequence& other = **get_if<SequencePtr>(right);
    if (sequence->get() == &other) return true;
    if (as_list(left) == nullptr || as_list(right) == nullptr)
      throw UserError("comparing {} with {} is not supported; try the filter list", type_name(left),
                      type_name(right));
    if ((*sequence)->form != other.form) return false;
    return std::equal((*sequence)->items.begin(), (*sequence)->items.end(), other.items.begin(),
                      other.items.end(), [&](const Value& a, const Value& b) { return equal(heap, a, b); });
  }
  if (const Dict* dict = as_dict(left)) return equal_entries(heap, *dict, *as_dict(right));
  if (const auto* range = get_if<RangePtr>(left)) return equal_ranges(**range, **get_if<RangePtr>(right));
  return std::visit(
      [&]<class T>(const T& each) {
        if constexpr (requires { each.get(); }) {
          return each.get() == std::get<T>(right).get();
        } else {
          return false;
        }
      },
      left);
}

bool less(Heap& heap, const Value& left, const Value& right) {
  return ordered(heap, left, right, std::less<>());
}

bool contains(Heap& heap, const Value& container, const Value& item) {
  if (const Text* text = as_text(container)) {
    const Text* part = as_text(item);
    if (part == nullptr) {
      if (is_undefined(item)) throw UserError("expected a text to search for, got an undefined value");
      throw UserError("expected a text to search for in a text, got {}", type_name(item));
    }
    return find_text(heap, text->bytes, part->bytes) != std::string_view::npos;
  }
  if (const Dict* dict = as_dict(container)) {
    if (const Text* text = as_text(item)) heap.spend_bytes(text->bytes.size());
    return find(*dict, item) != nullptr;
  }
  if (!is_iterable(container)) throw UserError("expected something to search, got {}", type_name(container));
  Cursor cursor(heap, container);
  for (Value each; cursor.next(each);) {
    if (equal(heap, each, item)) return true;
  }
  return false;
}

bool compare(Heap& heap, std::string_view name, const Value& left, const Value& right) {
  if (name == "==") return equal(heap, left, right);
  if (name == "!=") return !equal(heap, left, right);
  if (name == "<") return ordered(heap, left, right, std::less<>());
  if (name == "<=") return ordered(heap, left, right, std::less_equal<>());
  if (name == ">") return ordered(heap, left, right, std::greater<>());
  if (name == ">=") return ordered(heap, left, right, std::greater_equal<>());
  const bool inside = contains(heap, right, left);
  return name == "in" ? inside : !inside;
}

Value binary(Evaluator& evaluator, std::string_view name, const Value& left, const Value& right) {
  Heap& heap = evaluator.heap();
  const auto left_integer = as_integer(left);
  const auto right_integer = as_integer(right);
  if (left_integer && right_integer) return of_integers(name, *left_integer, *right_integer);
  const auto left_number = as_number(left);
  const auto right_number = as_number(right);
  if (left_number && right_number) return of_floats(name, *left_number, *right_number);

  const Text* left_text = as_text(left);
  const Text* right_text = as_text(right);
  const Sequence* left_list = as_list(left);
  const Sequence* right_list = as_list(right);
  if (name == "+") {
    if (left_text != nullptr && right_text != nullptr) return added_texts(heap, *left_text, *right_text);
    if (left_list != nullptr && right_list != nullptr && left_list->form == right_list->form) {
      heap.expect_items(static_cast<std::int64_t>(left_list->items.size() + right_list->items.size()));
      Values items = left_list->items;
      items.insert(items.end(), right_list->items.begin(), right_list->items.end());
      return heap.sequence(left_list->form, std::move(items));
    }
  } else if (name == "*") {
    if ((left_text != nullptr || left_list != nullptr) && right_integer)
      return repeated(heap, left, *right_integer);
    if ((right_text != nullptr || right_list != nullptr) && left_integer)
      return repeated(heap, right, *left_integer);
  } else if (name == "%" && left_text != nullptr) {
    if (left_text->markup) throw UserError("% on an escaped text is not supported");
    return heap.text(percent_format(evaluator, left_text->bytes, right));
  }
  fail_operands(name, left, right);
}

Value negated(const Value& value) {
  if (const auto number = as_integer(value)) {
    if (*number == kLowest) fail_overflow();
    return -*number;
  }
  if (const auto number = as_number(value)) return -*number;
  if (is_undefined(value)) fail_undefined(value);
  throw UserError("expected a number after -, got {}", type_name(value));
}

Value plus(const Value& value) {
  if (const auto number = as_integer(value)) return *number;
  if (const auto number = as_number(value)) return *number;
  if (is_undefined(value)) fail_undefined(value);
  throw UserError("expected a number after +, got {}", type_name(value));
}

Value slice(Heap& heap, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (is_undefined(value)) fail_undefined(value);
  if (const Text* text = as_text(value))
    return heap.text(sliced_text(heap, *text, places_of(text->length, start, stop, step)), text->markup);
  if (const Sequence* list = as_list(value)) {
    const Places places = places_of(static_cast<std::int64_t>(list->items.size()), start, stop, step);
    Values items;
    items.reserve(static_cast<std::size_t>(places.count));
    for (std::int64_t i = 0; i < places.count; ++i)
      items.push_back(list->items[static_cast<std::size_t>(places.start + i * places.step)]);
    return heap.sequence(list->form, std::move(items));
  }
  throw UserError("expected a text or a list to slice, got {}", type_name(value));
}

}  // namespace routeopd::jinja
