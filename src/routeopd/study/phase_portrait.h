// Figure: where updates go. Fidelity against specificity, of the arms and of the checkpoints of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

struct PhasePoint {
  std::string name;
  double fidelity = 0, leakage = 0;  // percent
  std::optional<double> accuracy;    // percent
};
struct PhaseCheckpoint {
  std::int64_t step = 0;
  double fidelity = 0, leakage = 0;
};
// Without points the block says what is missing.
Block phase_portrait_figure(const std::vector<PhasePoint>& arms,
                            const std::vector<PhaseCheckpoint>& checkpoints);

// The same of a study.
Block phase_portrait(const StudyResults& study, const StudyGrades& grades);

}  // namespace routeopd::study
