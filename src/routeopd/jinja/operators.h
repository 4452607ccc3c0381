// Python's operators on values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <string_view>

#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {

// ==
bool equal(Heap& heap, const Value& left, const Value& right);
// Whether `left` is before `right`: numbers, texts, lists and tuples; throws UserError for other pairs.
bool less(Heap& heap, const Value& left, const Value& right);
// One of == != < <= > >= in "not in".
bool compare(Heap& heap, std::string_view name, const Value& left, const Value& right);
// `item` in `container`
bool contains(Heap& heap, const Value& container, const Value& item);

// One of + - * / // % **.
Value binary(Evaluator& evaluator, std::string_view name, const Value& left, const Value& right);
Value negated(const Value& value);
Value plus(const Value& value);

// value[start:stop:step]; None where a bound is not given.
Value slice(Heap& heap, const Value& value, const Value& start, const Value& stop, const Value& step);

// The first position of `part` in `text` from byte `from` on, npos if there is none. Takes linear time for
// every text.
std::size_t find_text(Heap& heap, std::string_view text, std::string_view part, std::size_t from = 0);

// The last position, likewise.
std::size_t find_text_right(Heap& heap, std::string_view text, std::string_view part);

}  // namespace routeopd::jinja
