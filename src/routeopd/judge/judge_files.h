// A judge directory: labels.jsonl, one line per response;
// summary.json; cache.jsonl, unless it is kept elsewhere.
//
//   labels.jsonl  {"suite","problem","sample","label","pass1","pass2","adjudicated","clipped",
//                  "run"?,"rationale"?,"reason"?}
//                 pass1 and pass2 are null where that pass gave no label, so always for correct and format.
//                 "run" is there when several directories were labelled, "rationale" where the judge gave
//                 one, "reason" where the label is unjudged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "routeopd/judge/tally.h"

namespace routeopd::judge {

// Creates the directory, or opens one that an earlier run of the judge left. Throws UserError for any other
// that is not empty (an eval directory has a summary.json too), and for one with the labels of another model:
// they would be replaced.
void open_judge_directory(const std::filesystem::path& directory, const std::string& model);

// Every setting but the key is in it.
Json summary_of(const JudgeInput& input, const JudgeTally& tally, const Asker& asker);

void write_labels(const std::filesystem::path& path, const JudgeInput& input,
                  const std::vector<std::vector<Judgement>>& judgements);

}  // namespace routeopd::judge
