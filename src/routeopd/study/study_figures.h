// The paper's figures from the files of a study.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/report/block.h"
#include "routeopd/report/run_files.h"

namespace routeopd::report {

// Every figure; one whose data are not there says so.
Section study_figures(const StudyFiles& study);

// Of a probe by itself: its routes under `intervention`, with the concentration of their states.
Block route_records_of(const ProbeFiles& probe, const std::string& name, const std::string& intervention);

// Shares of the labels of these evaluations together; without labels, of correct, format and wrong.
std::vector<std::pair<std::string, double>> label_shares(const std::vector<const EvalFiles*>& evals);

}  // namespace routeopd::report
