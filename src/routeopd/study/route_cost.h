// Route construction by itself, as the paper breaks it down: milliseconds per step after both models' scores
// are there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "routeopd/study/loaded_pair.h"

namespace routeopd::study {

// (k, m) of the paper's table.
inline constexpr std::array<std::pair<std::int32_t, std::int32_t>, 6> kRouteShapes = {
    {{16, 2}, {32, 1}, {32, 2}, {32, 4}, {32, 8}, {64, 2}}};

double median_of(std::vector<double> values);

// [{"k", "m", "top_k_ms", "routing_ms", "gather_ms"}]: medians over rounds, all shapes on the states of one
// rollout. `watch` is told after every shape.
Json route_costs(const LoadedPair& pair, const StudyOptions& options, const std::vector<Prompt>& prompts,
                 const std::function<void()>& watch = {});

}  // namespace routeopd::study
