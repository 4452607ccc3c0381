// The bounds of one rendering, and the only place where its values are created. A template is untrusted:
// exceeding a bound is an error with a message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/jinja/value.h"

namespace routeopd::jinja {

struct Limits {
  std::int64_t steps = 30'000'000;           // syntax nodes, items, 16 bytes of text: about 1 s
  std::int64_t text_bytes = 64LL << 20U;     // per text, and of the whole output
  std::int64_t items = 1'000'000;            // per list or dict
  std::int64_t memory_bytes = 512LL << 20U;  // of all values that exist at one time
  int depth = 1200;                          // nested operations, including macro calls
};

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const Limits& limits() const { return limits_; }

  // Counts work; throws UserError above the bound.
  void spend(std::int64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.steps) fail_steps();
  }
  void spend_bytes(std::size_t bytes) { spend(1 + static_cast<std::int64_t>(bytes / 16)); }

  // Throw UserError if a text or list would exceed its bound, before it is allocated.
  void expect_bytes(std::int64_t bytes) const;
  void expect_items(std::int64_t items) const;

  Value text(std::string bytes, bool markup = false);
  Value list(Values items) { return sequence(Sequence::Form::kList, std::move(items)); }
  Value tuple(Values items) { return sequence(Sequence::Form::kTuple, std::move(items)); }
  Value sequence(Sequence::Form form, Values items);
  // A later entry replaces the value of an equal key.
  Value dict(std::vector<std::pair<Value, Value>> entries);
  Value iterator(const char* type, int nesting, std::function<bool(Value&)> next);
  // `nesting`: of the values that the function holds.
  Value function(std::string name, int nesting, std::function<Value(Evaluator&, Arguments)> call);

  // inner + 1; throws UserError above kMaxNesting.
  static int nested(int inner);

 private:
  friend class Charge;
  [[noreturn]] void fail_steps() const;

  Limits limits_;
  std::int64_t steps_ = 0;
  std::int64_t memory_ = 0;
};

// Iterates over any iterable value; throws UserError for other values.
class Cursor {
 public:
  Cursor(Heap& heap, Value source);
  bool next(Value& item);

 private:
  Heap* heap_;
  Value source_;
  std::size_t at_ = 0;
};

bool is_iterable(const Value& value);

// All items of an iterable.
Values items_of(Heap& heap, const Value& iterable);

// Builds a text within the bounds.
class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(heap) {}
  void add(std::string_view part) {
    heap_.expect_bytes(static_cast<std::int64_t>(text_.size() + part.size()));
    text_.append(part);
  }
  void repeat(std::string_view part, std::int64_t times);
  std::string& text() { return text_; }
  Heap& heap() { return heap_; }

 private:
  Heap& heap_;
  std::string text_;
};

// A value from JSON. Throws UserError for text that is not UTF-8, for integers from 2^63 on and for deep
// nesting.
Value value_of(Heap& heap, const OrderedJson& json, int depth = 0);

}  // namespace routeopd::jinja
