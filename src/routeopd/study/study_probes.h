// The frozen states of a study: its bank, the probes of the mechanism part, and the sizes of tuned updates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/probe/prober.h"
#include "routeopd/study/loaded_pair.h"
#include "routeopd/study/study_files.h"

namespace routeopd::study {

// One directory of probes/.
struct PlannedProbe {
  std::string name;
  std::string at;          // whose weights, in words: base, or RUN step_N
  std::string checkpoint;  // relative to the study: the student and its moments; empty: the starting student
  std::vector<probe::ProbeArm> arms;
  std::vector<probe::Intervention> interventions;  // all of them apply to all of the arms

  std::int64_t rows() const { return std::ssize(arms) * std::ssize(interventions); }
};

// What the mechanism part measures, of the arms that the study keeps to:
//   arms      every arm's fresh-AdamW update at the starting student
//   support   the same update for every support and number of pairs
//   ladder    all interventions for routeopd in the middle of its first run, that run's own moments among
//             them; at its end where no checkpoint was made before
std::vector<PlannedProbe> probes_of(const StudyOptions& options);

// bank.safetensors of the study, where it is not there yet: states of the starting student on held-out
// problems, and where these are too few on training prompts. Where those do not give as many either, the bank
// has what there is, and a note says so.
void make_bank(StudyFiles& files, const LoadedPair& pair);

// Told before every row and after a probe's last one: which, how many are done, of how many, and the seconds
// since it was told last.
using ProbesWatch =
    std::function<void(const std::string& row, std::int64_t done, std::int64_t total, double seconds)>;

// Fills in how far one unscaled update of each tuned arm goes at each of its rates (probe/step_size.h), on
// states that the starting student visits on validation problems. Not part of the choice: it says what the
// curve of a rate is about.
void measure_step_sizes(Tuning& tuning, const LoadedPair& pair, const StudyOptions& options);

// Each of probes_of() where it is not there yet.
void run_probes(StudyFiles& files, const LoadedPair& pair, const ProbesWatch& watch);

}  // namespace routeopd::study
