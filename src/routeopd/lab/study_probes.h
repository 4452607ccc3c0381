// The frozen states of a study: its bank, and the probes of the mechanism part.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "routeopd/lab/loaded_pair.h"
#include "routeopd/lab/study_files.h"

namespace routeopd::lab {

// bank.safetensors of the study, where it is not there yet: states of the starting student on held-out problems, or where
// there are none on training prompts.
void make_bank(StudyFiles& files, const LoadedPair& pair);

using ProbesWatch = std::function<void(const std::string& probe, std::int64_t done, std::int64_t total)>;

// What the mechanism part measures, each where it is not there yet:
//   arms      every arm's fresh-AdamW update at the starting student
//   support   the same update for every support and number of pairs
//   ladder    all interventions for routeopd at `checkpoint`, a run's own moments among them
void run_probes(StudyFiles& files, const LoadedPair& pair, const std::filesystem::path& checkpoint,
                const ProbesWatch& watch);

}  // namespace routeopd::lab
