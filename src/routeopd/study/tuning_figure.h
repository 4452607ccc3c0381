// Figure: accuracy over the learning rate, an arm a line, and beside it how much of its targets one update of
// that rate reaches and overshoots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/study/study_view.h"

namespace routeopd::study {

// Without a tuning, or without rates in it, the block says what is missing.
Block tuning_figure(const StudyResults& study);

}  // namespace routeopd::study
