// The words of the family "sums".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/lab/phrases.h"

namespace routeopd::lab {

// Of problems.
extern const Words kNames, kNouns, kGains, kLosses, kDoubles, kHalves;

// Of solutions.
extern const Phrases kSumsOpeners, kPlus, kMinus, kTimes, kOver;

}  // namespace routeopd::lab
