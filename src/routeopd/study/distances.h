// Distances of a study's main runs to the teacher on held-out states (probe/distance.h): measured from their
// last checkpoints, kept as one file per run and one for the starting student,
//
//   runs/NAME-seedS/distance.jsonl, base/distance.jsonl
//     a line per state of the bank: {"sequence", "mass", "forward_kl", "reverse_kl"}
//
// and compared with intervals that draw whole responses, since states of one response are not independent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/grade/statistics.h"
#include "routeopd/study/loaded_pair.h"
#include "routeopd/study/study_files.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

// Measured for every run of a part that says so, and for the starting student.
std::vector<PlannedRun> distance_runs(const Part& part, const StudyOptions& options);
std::string distance_path(const std::string& run_path);  // RUN/distance.jsonl

// Those that are not there yet. The bank must be.
void measure_distances(
    StudyFiles& files, const std::vector<PlannedRun>& runs, const LoadedPair& pair,
    const std::function<void(std::int64_t done, std::int64_t total, double seconds)>& watch);

// Which of the three.
enum class Distance { kMass, kForwardKl, kReverseKl };

// The mean over states of all of a variant's runs.
std::optional<grade::Interval> mean_distance(const std::vector<const StudyRun*>& runs, Distance kind);
// The mean difference, second less first, paired on states, over the seeds that both have.
std::optional<grade::Interval> distance_contrast(const std::vector<const StudyRun*>& first,
                                                 const std::vector<const StudyRun*>& second, Distance kind);

}  // namespace routeopd::study
