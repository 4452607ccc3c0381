// The attribute that filters look at: "function.name", "0.1", 3; several with commas between them for sort.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/jinja/interpreter.h"

namespace routeopd::jinja {

class AttributePath {
 public:
  // None: the item itself. `otherwise` stands for what is undefined, unless it is None.
  AttributePath(Heap& heap, const Value& attribute, Value otherwise = None{});
  Value of(Interpreter& interpreter, Value item) const;

 private:
  Values parts_;
  Value otherwise_;
};

std::vector<AttributePath> several_paths(Heap& heap, const Value& attribute);

}  // namespace routeopd::jinja
