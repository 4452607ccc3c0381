// One training run of a study, or one trial of its tuning: made, or resumed, to its end, with its evaluations
// and probes on the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "routeopd/study/loaded_pair.h"
#include "routeopd/study/parts.h"
#include "routeopd/study/rates.h"
#include "routeopd/types/step_metrics.h"

namespace routeopd::study {

// Told after every step, and now and then while an evaluation is under way.
struct StudyRunEvents {
  std::function<void(const StepMetrics& metrics)> step;
  std::function<void(std::int64_t done, std::int64_t total)> evaluating;
  std::function<void(double seconds)> evaluated;  // and probed
};

// Removes the checkpoints that nothing needs: resuming takes the newest there is, and the probes take `hold`.
void remove_checkpoints(const std::filesystem::path& run, std::int64_t hold);

// Steps after which a run is evaluated and probed.
bool is_due(const PlannedRun& run, std::int64_t step, std::int64_t steps);
std::int64_t evaluations_of(const PlannedRun& run, std::int64_t steps);

// Trains at the learning rate `lr` into the run's place in the study. Whatever of it is there already is
// used: a run that was killed resumes from its newest checkpoint, to the same bits. A run that is evaluated
// on the way also probes the study's bank.
void make_run(const PlannedRun& run, double lr, const std::filesystem::path& study, const LoadedPair& pair,
              const StudyOptions& options, const StudyRunEvents& events);

// Trains a trial into its place, the same way, and returns its Avg@n on the validation problems, the only
// ones that it is judged by.
double make_trial(const Trial& trial, const std::filesystem::path& study, const LoadedPair& pair,
                  const StudyOptions& options, const StudyRunEvents& events);

}  // namespace routeopd::study
