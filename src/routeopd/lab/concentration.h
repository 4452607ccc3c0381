// How concentrated the teacher's demand is on a problem: the M-weighted mean concentration c over the states that the
// untrained student visits on it. The mapping from states to problems is ours (the paper does not say).
//
//   concentration.jsonl {"suite", "problem", "states", "mass", "concentration", "budget"}, a line a problem: valid states,
//   mean M, sum of M c / sum of M (null where no state has mass), mean budget of the routed states (null where none is)
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

#include "routeopd/lab/loaded_pair.h"

namespace routeopd::lab {

// Four responses a problem at temperature 1, read by the teacher, routed as the study's `routeopd`. The file appears whole.
void write_concentration(const std::filesystem::path& path, const LoadedPair& pair,
                         const StudyOptions& options,
                         const std::function<void(std::int64_t done, std::int64_t total)>& watch = {});

}  // namespace routeopd::lab
