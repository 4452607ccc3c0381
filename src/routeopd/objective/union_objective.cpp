// The objectives on the whole union of each state: the exact coupling and the union KLs (ours). All read the
// logits at the ids of U through the gather head; none needs the LM-head product.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/gather_head.h"
#include "routeopd/objective/arms.h"
#include "routeopd/routing/exact_coupling.h"
#include "routeopd/routing/union_kl.h"

namespace routeopd::objective {
namespace {

class UnionObjective : public Objective {
 public:
  UnionObjective(const routing::ObjectiveOptions& options, model::Backend backend)
      : options_(options), log_delta_p_(static_cast<float>(std::log(options.delta_p))), backend_(backend) {}

  bool dense() const override { return false; }

  ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                       model::HeadGradient& grad_weight) const override {
    ROUTEOPD_INVARIANT(batch.routes != nullptr && batch.denominator > 0);
    const Routes& routes = *batch.routes;
    const Support& support = routes.support;
    const auto first = static_cast<std::size_t>(batch.first_state);
    const auto tokens = static_cast<std::size_t>(batch.hidden_TH.size(0));
    ROUTEOPD_INVARIANT(first + tokens < support.offsets_N1.size());

    const auto begin = static_cast<std::size_t>(support.offsets_N1[first]);
    const auto end = static_cast<std::size_t>(support.offsets_N1[first + tokens]);
    std::vector<std::int64_t> offsets;  // of this micro-batch, from 0
    for (std::size_t t = 0; t <= tokens; ++t) {
      offsets.push_back(support.offsets_N1[first + t] - support.offsets_N1[first]);
    }
    const model::TokenIds ids{offsets, std::span(support.ids_L).subspan(begin, end - begin)};
    const model::TokenLoss loss = [&](std::int64_t t, std::span<const float> logits, std::span<float> grad) {
      const std::size_t at = begin + static_cast<std::size_t>(offsets[static_cast<std::size_t>(t)]);
      return token_loss(routes, first + static_cast<std::size_t>(t), at, batch.denominator, logits, grad);
    };
    ObjectiveResult result;
    result.loss = model::gather_head_step(batch.hidden_TH, batch.weight_VH, ids, loss, grad_hidden_TH,
                                          grad_weight, backend_);
    return result;
  }

 private:
  // State `n`, whose support begins at `at`.
  double token_loss(const Routes& routes, std::size_t n, std::size_t at, double denominator,
                    std::span<const float> logits, std::span<float> grad) const {
    const Support& support = routes.support;
    const auto part = [&](const std::vector<float>& values) {
      return std::span(values).subspan(at, logits.size());
    };
    if (options_.loss == routing::Loss::kUnionRkl) {
      return routing::union_reverse_kl(part(support.log_p_teacher_L), logits, log_delta_p_, 1 / denominator,
                                       grad);
    }
    if (options_.loss == routing::Loss::kUnionFkl) {
      return routing::union_forward_kl(part(support.log_p_teacher_L), part(support.p_teacher_L), logits,
                                       1 / denominator, grad);
    }
    thread_local routing::CouplingScratch scratch;
    const double weight = routes.routed_N[n] ? static_cast<double>(routes.weight_N[n]) / denominator : 0.0;
    const routing::CouplingView view{part(support.old_logits_L),
                                     part(support.p_student_L),
                                     part(support.p_teacher_L),
                                     part(support.bounded_L),
                                     weight,
                                     options_.kappa};
    return routing::exact_coupling_loss(view, logits, grad, scratch);
  }

  routing::ObjectiveOptions options_;
  float log_delta_p_;
  model::Backend backend_;
};

}  // namespace

std::unique_ptr<Objective> make_union_objective(const routing::ObjectiveOptions& options,
                                                model::Backend backend) {
  return std::make_unique<UnionObjective>(options, backend);
}

}  // namespace routeopd::objective
