// SPDX-License-Identifier: Apache-2.0
#include "routeopd/objective/objective.h"

#include "routeopd/objective/full_kl_objective.h"
#include "routeopd/objective/log_prob_objectives.h"
#include "routeopd/objective/sparse_objectives.h"

namespace routeopd::objective {

std::unique_ptr<Objective> make_objective(const routing::ObjectiveOptions& options, model::Backend backend) {
  using routing::Loss;
  routing::check_objective(options);
  switch (options.loss) {
    case Loss::kUnionRkl:
    case Loss::kUnionFkl:
      return make_union_objective(options, backend);
    case Loss::kFullRkl:
    case Loss::kFullFkl:
      return make_full_kl_objective(options, backend);
    case Loss::kSampledRkl:
    case Loss::kSft:
      return make_log_prob_objective(options, backend);
    case Loss::kRouted:
      break;
  }
  if (options.pairs == routing::Pairs::kExact) return make_union_objective(options, backend);
  if (options.side != routing::Side::kPair) return make_log_prob_objective(options, backend);
  return make_pair_objective(options, backend);
}

}  // namespace routeopd::objective
