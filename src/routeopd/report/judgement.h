// The error taxonomy as tables: how labels are distributed, what moved into and out of correctness, lengths.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/judge/tally.h"
#include "routeopd/table/text_table.h"

namespace routeopd::report {

// The tables of every suite, and of all together where there are several; then agreement and what is
// unjudged.
std::string judgement_tables(const judge::JudgeInput& input, const judge::JudgeTally& tally,
                             table::TableFormat format);

}  // namespace routeopd::report
