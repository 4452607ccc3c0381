// The top of a study's page: what was asked, in a sentence, and what the intervals show and do not show, in a
// sentence each. Made from the numbers by rule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

// "Does routeopd end above sampled_rkl and fixed_mid in Avg@16 on 200 held-out problems, each arm at its own
// learning rate?" Of a study without accuracies, what it measured; empty where it measured nothing.
std::string study_question(const StudyView& view);

// What the intervals show; then what they do not, and what they rest on.
std::string study_answer(const StudyView& view);

// The same in words of a reader: differences of `subject` from others, in `unit`; `basis` is a sentence that
// begins with "he", for "The" or "; the".
std::string answer_words(const std::string& subject, const std::string& unit,
                         const std::vector<Difference>& differences, const std::string& basis);

}  // namespace routeopd::study
