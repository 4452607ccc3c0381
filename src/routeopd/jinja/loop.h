// The variable `loop` of a for loop: looks ahead only as far as it is asked, as jinja's LoopContext does. It holds values
// while its loop runs; behind that it is empty, so that values that hold loops are neither deep nor cycles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string_view>

#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {

struct Loop {
  explicit Loop(Heap& heap) : charge(heap, 1024) {}

  std::function<bool(Value&)> source;  // the items that passed the loop's filter
  std::optional<std::int64_t> known_length;
  std::deque<Value> ahead;   // read from the source, not yet current
  std::int64_t index0 = -1;  // of the current item
  std::int64_t depth0 = 0;
  Value before;
  Value current;
  std::optional<Values> last_changed;

  bool ended = false;
  Charge charge;

  bool advance();  // to the next item; false at the end
  bool peek();     // whether there is a next item
  std::int64_t length();
  void end();
};

// loop.NAME; undefined where jinja has none.
Value loop_attribute(Heap& heap, const LoopPtr& loop, std::string_view name);

}  // namespace routeopd::jinja
