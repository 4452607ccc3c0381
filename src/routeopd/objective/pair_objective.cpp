// The routed objective on sampled pairs (eq. routeopd-objective), two-sided: the pair head, and Huber on each
// pair.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/objective/arms.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "routeopd/model/heads/pair_head.h"
#include "routeopd/routing/huber.h"

namespace routeopd::objective {
namespace {

class PairObjective : public Objective {
 public:
  PairObjective(const routing::ObjectiveOptions& options, model::Backend backend)
      : kappa_(static_cast<float>(options.kappa)), backend_(backend) {}

  bool dense() const override { return false; }

  ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                       model::HeadGradient& grad_weight) const override {
    const PairRows rows(batch);
    std::vector<double> change_squares_T(static_cast<std::size_t>(rows.tokens), 0);
    const model::TokenLoss loss = [&](std::int64_t t, std::span<const float> log_odds,
                                      std::span<float> grad) {
      return pair_token_loss(rows, t, log_odds, grad, kappa_, change_squares_T[static_cast<std::size_t>(t)]);
    };
    ObjectiveResult result;
    result.loss = model::pair_head_step(batch.hidden_TH, batch.weight_VH, rows.source_TM, rows.destination_TM,
                                        loss, grad_hidden_TH, grad_weight, backend_);
    result.change_squares = std::accumulate(change_squares_T.begin(), change_squares_T.end(), 0.0);
    result.changes = rows.pairs_present();
    return result;
  }

 private:
  float kappa_;
  model::Backend backend_;
};

}  // namespace

std::unique_ptr<Objective> make_pair_objective(const routing::ObjectiveOptions& options,
                                               model::Backend backend) {
  return std::make_unique<PairObjective>(options, backend);
}

}  // namespace routeopd::objective
