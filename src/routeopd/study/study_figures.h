// The paper's figures from a study.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/charts/series_charts.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

// Accuracy, mass, fidelity and leakage over the steps of training. Without points the block says what is
// missing.
report::Block dynamics_figure(const std::vector<report::CurvePoint>& points);

// Every figure of what was run. One that was asked for and whose data are not there says so; one that was
// never asked for is absent.
// `suites` as in study_tables().
report::Section study_figures(const StudyResults& study, const std::vector<std::string>& suites = {});

}  // namespace routeopd::study
