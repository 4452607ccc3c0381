// How concentrated the teacher's demand is on a problem: the M-weighted mean concentration c over the states
// that the untrained student visits on it. The mapping from states to problems is ours (the paper does not
// say).
//
//   concentration.jsonl {"suite", "problem", "states", "mass", "concentration", "budget"}, one line per
//   problem: valid states, their mean M; of the routed ones, which alone have a c, sum of M c / sum of M and
//   the mean budget (null where none is)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "routeopd/study/loaded_pair.h"
#include "routeopd/types/routes.h"

namespace routeopd::study {

// What a line is made of: sums over the states of a problem.
struct ConcentrationSums {
  std::int64_t states = 0, routed = 0;
  double mass = 0;  // of all valid states
  double routed_mass = 0, weighted = 0, budget = 0;

  void add(const Routes& routes, std::size_t n);
  Json json(const std::string& suite, const std::string& problem) const;
};

// Four responses per problem at temperature 1, read by the teacher, routed as the study's `routeopd`. The
// file appears whole.
void write_concentration(const std::filesystem::path& path, const LoadedPair& pair,
                         const StudyOptions& options,
                         const std::function<void(std::int64_t done, std::int64_t total)>& watch = {});

}  // namespace routeopd::study
