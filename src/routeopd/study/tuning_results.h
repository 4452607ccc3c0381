// What a study's tuning found: for each tuned arm and learning rate, how the student did on validation
// problems, which are neither trained on nor held out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace routeopd::study {

struct TunedRate {
  std::string arm;
  double lr = 0;
  std::vector<double> per_seed;  // Avg@n in [0,1] on validation problems
  // Of targets by one unscaled update of this rate, and the update's RMS change of log-odds.
  std::optional<double> completion, overshoot, rms;
  bool chosen = false;
};

struct Tuning {
  std::vector<TunedRate> rates;
  std::optional<double> shared_lr;  // of the runs that all arms have at one rate
  std::int64_t samples = 0, problems = 0;
};

}  // namespace routeopd::study
