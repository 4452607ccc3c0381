// Equations and inequalities as answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/node.h"

namespace routeopd::grade::math {

// a = b = … = c, or with \approx.
bool is_equation(const Node& node);
// An equation whose left side is a name: x, f(x), \text{Area}, (x, y).
bool is_assignment(const Node& node);

// x > 2, 2 < x \le 5: the interval of the one variable; of a list of such, the union. Nothing for all else.
std::optional<Node> interval_of(const Node& node);

// Two relations. Equations and inequalities are the same when what is left after bringing everything to one
// side differs by a constant factor, positive where the direction matters.
bool same_relation(const Node& reference, const Node& given, Budget& budget);

}  // namespace routeopd::grade::math
