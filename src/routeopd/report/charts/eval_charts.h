// Figures of evaluations: accuracy and lengths suite by suite, and what responses are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/evaluation_files.h"

namespace routeopd::report {

Block eval_accuracy_figure(const std::vector<EvalFiles>& evals);
Block eval_lengths_figure(const std::vector<EvalFiles>& evals);

// Shares of the labels of these evaluations together, in percent; without labels, of correct, format and
// wrong.
std::vector<std::pair<std::string, double>> label_shares(const std::vector<const EvalFiles*>& evals);

struct LabelShare {
  std::string name;   // of the arm
  std::string label;  // correct | reasoning | arithmetic | premature_stop | format | unjudged
  double share = 0;   // percent
};
// One bar for each name.
Block composition_figure(const std::vector<LabelShare>& shares);

}  // namespace routeopd::report
