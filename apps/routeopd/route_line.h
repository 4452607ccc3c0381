// One line of `routeopd route`: the state it describes, and the answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/routing/options.h"

namespace routeopd::app {

enum class Precision { kDouble, kFloat };  // the reference, or the fast kernel

struct RouteSettings {
  routing::ObjectiveOptions objective;
  std::uint64_t seed = 42;
  Precision precision = Precision::kDouble;
};

struct RouteLine {
  std::vector<double> student, teacher, current;  // logits over the vocabulary
  bool has_current = false;
  std::optional<std::vector<std::array<std::int32_t, 2>>> pairs;
  std::optional<std::int32_t> action;
  std::string name;                 // for the table
  std::vector<std::string> tokens;  // texts of the ids, for the table
  RouteSettings settings;           // with the line's own options
};

// Throws UserError; the caller adds the file and the line.
RouteLine parse_route_line(const Json& line, const RouteSettings& base);

// Everything that `route out` promises. `index` is the line's address for random numbers (position).
Json route_answer(const RouteLine& line, std::uint32_t index);

}  // namespace routeopd::app
