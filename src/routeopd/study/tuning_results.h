// What tuning measured and chose (tune.json), as plain data for tables and figures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace routeopd::study {

// Of at least one.
inline double mean_over_seeds(const std::vector<double>& per_seed) {
  return std::accumulate(per_seed.begin(), per_seed.end(), 0.0) / static_cast<double>(per_seed.size());
}

// One arm at one learning rate.
struct TunedRate {
  std::string arm;
  double lr = 0;
  std::vector<double> per_seed;  // Avg@n in [0, 1] on validation problems
  // Of targets by one unscaled update at this rate: shares, and the RMS change of log-odds.
  std::optional<double> completion, overshoot, rms;
  bool chosen = false;
};

struct Tuning {
  std::vector<TunedRate> rates;     // by arm, rates ascending
  std::optional<double> shared_lr;  // of the arms where all share one
  std::int64_t samples = 0, problems = 0;
};

}  // namespace routeopd::study
