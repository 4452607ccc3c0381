// Comparing and containing; arithmetic is in arithmetic.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "routeopd/base/error.h"

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
    // The order of UTF-8 bytes is that of code points.
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

// Knuth, Morris and Pratt.
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
      if (is_undefined(item)) throw UserError("expected a text to look for, got an undefined value");
      throw UserError("expected a text to look for in a text, got {}", type_name(item));
    }
    return find_text(heap, text->bytes, part->bytes) != std::string_view::npos;
  }
  if (const Dict* dict = as_dict(container)) {
    if (const Text* text = as_text(item)) heap.spend_bytes(text->bytes.size());
    return find(*dict, item) != nullptr;
  }
  if (!is_iterable(container))
    throw UserError("expected something to look into, got {}", type_name(container));
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

}  // namespace routeopd::jinja
