// The bounds of one rendering, and the one place where its values are made. A template is untrusted: whatever it
// computes ends, in words, at these bounds.
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
  std::int64_t steps = 30'000'000;  // syntax nodes visited, items touched, 16 bytes of text: about a second
  std::int64_t text_bytes = 64LL << 20U;     // of one text, and of the whole answer
  std::int64_t items = 1'000'000;            // of one list or dict
  std::int64_t memory_bytes = 512LL << 20U;  // of all values alive at a time
  int depth = 1200;                          // nested visits of the evaluator, macros within macros included
};

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const Limits& limits() const { return limits_; }

  // Counts work; throws UserError when there was too much.
  void spend(std::int64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.steps) fail_steps();
  }
  void spend_bytes(std::size_t bytes) { spend(1 + static_cast<std::int64_t>(bytes / 16)); }

  // Throw UserError before a text or a list of that size is made.
  void expect_bytes(std::int64_t bytes) const;
  void expect_items(std::int64_t items) const;

  Value text(std::string bytes, bool markup = false);
  Value list(Values items) { return sequence(Sequence::Form::kList, std::move(items)); }
  Value tuple(Values items) { return sequence(Sequence::Form::kTuple, std::move(items)); }
  Value sequence(Sequence::Form form, Values items);
  Value dict(
      std::vector<std::pair<Value, Value>> entries);  // a later entry replaces the value of an equal key
  Value iterator(const char* type, int nesting, std::function<bool(Value&)> next);
  // `nesting` of what the function holds on to.
  Value function(std::string name, int nesting, std::function<Value(Evaluator&, Arguments)> call);

  // One more than `inner`; throws UserError when that is too deep.
  static int nested(int inner);

 private:
  friend class Charge;
  [[noreturn]] void fail_steps() const;

  Limits limits_;
  std::int64_t steps_ = 0;
  std::int64_t memory_ = 0;
};

// Gives the items of any iterable value one after another; throws UserError for a value that is none.
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

// A text in the making that stays within the bounds.
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

// JSON from outside as a value. Throws UserError for text that is not UTF-8, for integers from 2^63 on and for deep nesting.
Value value_of(Heap& heap, const OrderedJson& json, int depth = 0);

}  // namespace routeopd::jinja
