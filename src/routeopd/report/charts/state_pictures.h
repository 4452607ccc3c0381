// The two conceptual pictures, drawn from one real state of a probe (example.json): what scalar credit leaves
// open, and what the operator does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/report/block.h"

namespace routeopd::report {

// `example`: the object of example.json, null where there is none. Ids with fields that are no numbers are
// skipped.
Block scalar_credit_figure(const Json& example);
Block operator_figure(const Json& example);

}  // namespace routeopd::report
