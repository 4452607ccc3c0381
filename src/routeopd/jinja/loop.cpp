//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/loop.h"

#include "routeopd/base/error.h"
#include "routeopd/jinja/operators.h"

namespace routeopd::jinja {

bool Loop::advance() {
  Value item;
  if (!ahead.empty()) {
    item = std::move(ahead.front());
    ahead.pop_front();
  } else if (!source(item)) {
    return false;
  }
  ++index0;
  before = std::move(current);
  current = std::move(item);
  return true;
}

bool Loop::peek() {
  if (!ahead.empty()) return true;
  Value item;
  if (!source(item)) return false;
  ahead.push_back(std::move(item));
  return true;
}

std::int64_t Loop::length() {
  if (!known_length) {
    for (Value item; source(item);) ahead.push_back(item);
    known_length = index0 + 1 + static_cast<std::int64_t>(ahead.size());
  }
  return *known_length;
}

void Loop::end() {
  ended = true;
  if (!known_length) known_length = index0 + 1;
  source = nullptr;
  ahead.clear();
  last_changed.reset();
  before = None{};
  current = None{};
}

Value loop_attribute(Heap& heap, const LoopPtr& loop, std::string_view name) {
  if (loop->ended) throw UserError("loop is not supported behind the end of its loop");
  if (name == "index") return loop->index0 + 1;
  if (name == "index0") return loop->index0;
  if (name == "first") return loop->index0 == 0;
  if (name == "last") return !loop->peek();
  if (name == "length") return loop->length();
  if (name == "revindex") return loop->length() - loop->index0;
  if (name == "revindex0") return loop->length() - loop->index0 - 1;
  if (name == "depth") return loop->depth0 + 1;
  if (name == "depth0") return loop->depth0;
  if (name == "previtem") return loop->index0 == 0 ? undefined("there is no previous item") : loop->before;
  if (name == "nextitem") return loop->peek() ? loop->ahead.front() : undefined("there is no next item");
  if (name == "cycle") {
    return heap.function("cycle", 0, [loop](Interpreter&, Arguments arguments) {
      if (arguments.positional.empty() || !arguments.named.empty())
        throw UserError("loop.cycle: expected items to cycle through, got none");
      const auto size = static_cast<std::int64_t>(arguments.positional.size());
      return arguments.positional[static_cast<std::size_t>(loop->index0 % size)];
    });
  }
  if (name == "changed") {
    return heap.function("changed", 0, [loop, &heap](Interpreter&, Arguments arguments) -> Value {
      if (loop->ended) throw UserError("loop.changed is not supported behind the end of its loop");
      bool same = loop->last_changed && loop->last_changed->size() == arguments.positional.size();
      for (std::size_t i = 0; same && i < arguments.positional.size(); ++i)
        same = equal(heap, (*loop->last_changed)[i], arguments.positional[i]);
      if (!same) loop->last_changed = std::move(arguments.positional);
      return !same;
    });
  }
  return undefined(fmt::format("loop has no attribute {}", name));
}

}  // namespace routeopd::jinja
