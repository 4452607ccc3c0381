// What a study still has to do: the pieces that a part needs, whether they are there, and how much work the
// others are. Parts are called by their names (parts.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "routeopd/study/study_files.h"
#include "routeopd/study/study_pace.h"

namespace routeopd::study {

// Throws UserError where learning rates were to be chosen (`tune` is what the user asked for by name) and are
// given, or where a run of these parts has no tuned arm to take its rate from. `taken`: the rates of a record
// that was named.
void check_parts(const std::vector<std::string>& parts, bool tune, const StudyPair& pair,
                 const StudyOptions& options, const std::optional<Rates>& taken);

// The manifest says so, and everything that the part needs is still there.
bool is_done(const StudyFiles& files, const std::string& part);

// What the part will lack, and why; empty: nothing.
std::string lack_of(const StudyFiles& files, const std::string& part);

// The parts, with the one that chooses learning rates before them where they train and the rates are not
// there, and without it where they were given.
std::vector<std::string> with_tuning(const StudyFiles& files, std::vector<std::string> parts);

// What these parts have to do between them; what two of them need counts once.
StudyPace work_left(const StudyFiles& files, const std::vector<std::string>& parts);

}  // namespace routeopd::study
