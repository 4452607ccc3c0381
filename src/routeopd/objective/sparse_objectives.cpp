// SPDX-License-Identifier: Apache-2.0
#include "routeopd/objective/sparse_objectives.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/gather_head.h"
#include "routeopd/model/heads/pair_head.h"
#include "routeopd/routing/token_losses.h"

namespace routeopd::objective {
namespace {

class PairObjective : public Objective {
 public:
  PairObjective(const routing::ObjectiveOptions& options, model::Backend backend)
      : kappa_(static_cast<float>(options.kappa)), backend_(backend) {}

  bool dense() const override { return false; }
  bool reads_old() const override { return true; }

  void record(const LearnerBatch& batch) const override {
    const PairRows rows(batch);
    const at::Tensor log_odds_TM =
        model::pair_log_odds(batch.hidden_TH, batch.weight_VH, rows.source_TM, rows.destination_TM, backend_)
            .to(at::kCPU, at::kFloat)
            .contiguous();
    std::copy_n(log_odds_TM.const_data_ptr<float>(), rows.kept.size(), rows.kept.begin());
  }

  ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                       model::HeadGradient& grad_weight) const override {
    const PairRows rows(batch);
    GapMeter gap = batch.gap_meter();
    std::vector<double> change_squares_T(static_cast<std::size_t>(rows.tokens), 0);
    const model::TokenLoss loss = [&](std::int64_t t, std::span<const float> log_odds,
                                      std::span<float> grad) {
      for (std::size_t i = 0; batch.first && i < log_odds.size(); ++i) {
        const std::size_t pair = static_cast<std::size_t>(t) * log_odds.size() + i;
        if (rows.source[pair] >= 0)
          gap.log_odds(t, static_cast<double>(log_odds[i]), static_cast<double>(rows.engine[pair]));
      }
      return pair_token_loss(rows, t, log_odds, grad, kappa_, change_squares_T[static_cast<std::size_t>(t)]);
    };
    ObjectiveResult result;
    result.loss = model::pair_head_step(batch.hidden_TH, batch.weight_VH, rows.source_TM, rows.destination_TM,
                                        loss, grad_hidden_TH, grad_weight, backend_);
    result.change_squares = std::accumulate(change_squares_T.begin(), change_squares_T.end(), 0.0);
    result.changes = rows.pairs_present();
    result.gap = gap.total();
    return result;
  }

 private:
  float kappa_;
  model::Backend backend_;
};

class UnionObjective : public Objective {
 public:
  UnionObjective(const routing::ObjectiveOptions& options, model::Backend backend)
      : options_(options), log_delta_p_(static_cast<float>(std::log(options.delta_p))), backend_(backend) {}

  bool dense() const override { return false; }
  bool reads_old() const override { return options_.loss == routing::Loss::kRouted; }

  void record(const LearnerBatch& batch) const override {
    if (!reads_old()) return;
    const SupportRows rows(batch);
    const at::Tensor logits =
        model::gather_logits(batch.hidden_TH, batch.weight_VH, rows.ids(), backend_).to(at::kCPU, at::kFloat);
    std::copy_n(logits.const_data_ptr<float>(), rows.end - rows.begin,
                batch.old->support_L.begin() + static_cast<std::ptrdiff_t>(rows.begin));
  }

  ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                       model::HeadGradient& grad_weight) const override {
    const SupportRows rows(batch);
    const model::TokenLoss loss = [&](std::int64_t t, std::span<const float> logits, std::span<float> grad) {
      const std::size_t at = rows.begin + static_cast<std::size_t>(rows.offsets[static_cast<std::size_t>(t)]);
      return token_loss(batch, static_cast<std::size_t>(batch.first_state + t), at, logits, grad);
    };
    ObjectiveResult result;
    result.loss = model::gather_head_step(batch.hidden_TH, batch.weight_VH, rows.ids(), loss, grad_hidden_TH,
                                          grad_weight, backend_);
    return result;
  }

 private:
  // The support of a micro-batch's states: [begin, end) of Support's arrays.
  struct SupportRows {
    explicit SupportRows(const LearnerBatch& batch) {
      ROUTEOPD_INVARIANT(batch.routes != nullptr && batch.denominator > 0);
      const Support& support = batch.routes->support;
      const auto first = static_cast<std::size_t>(batch.first_state);
      const auto tokens = static_cast<std::size_t>(batch.hidden_TH.size(0));
      ROUTEOPD_INVARIANT(first + tokens < support.offsets_N1.size());
      begin = static_cast<std::size_t>(support.offsets_N1[first]);
      end = static_cast<std::size_t>(support.offsets_N1[first + tokens]);
      for (std::size_t t = 0; t <= tokens; ++t)
        offsets.push_back(support.offsets_N1[first + t] - support.offsets_N1[first]);
      ids_L = support.ids_L;
    }

    model::TokenIds ids() const { return {offsets, ids_L.subspan(begin, end - begin)}; }

    std::size_t begin = 0, end = 0;
    std::vector<std::int64_t> offsets;  // of this micro-batch, from 0
    std::span<const std::int32_t> ids_L;
  };

  // State `n`, whose support begins at `at`. Of the coupling, the old logits alone may be the learner's: U,
  // the shares of q- and q+ and the bounded potentials are those that were routed.
  double token_loss(const LearnerBatch& batch, std::size_t n, std::size_t at, std::span<const float> logits,
                    std::span<float> grad) const {
    const Routes& routes = *batch.routes;
    const Support& support = routes.support;
    const double denominator = batch.denominator;
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
    if (batch.old != nullptr && batch.first)
      std::copy(logits.begin(), logits.end(), batch.old->support_L.begin() + static_cast<std::ptrdiff_t>(at));
    const routing::CouplingView view{part(batch.old != nullptr ? batch.old->support_L : support.old_logits_L),
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

PairRows::PairRows(const LearnerBatch& batch) {
  ROUTEOPD_INVARIANT(batch.routes != nullptr && batch.denominator > 0);
  const Routes& routes = *batch.routes;
  tokens = batch.hidden_TH.size(0);
  pairs = routes.pairs;
  denominator = batch.denominator;
  ROUTEOPD_INVARIANT(batch.first_state >= 0 && batch.first_state + tokens <= routes.states);
  const auto first = static_cast<std::size_t>(batch.first_state * pairs);
  const auto count = static_cast<std::size_t>(tokens * pairs);
  source = std::span(routes.source_NM).subspan(first, count);
  destination = std::span(routes.destination_NM).subspan(first, count);
  target = std::span(routes.target_NM).subspan(first, count);
  engine = std::span(routes.old_NM).subspan(first, count);
  old = engine;
  if (batch.old != nullptr) {
    const std::span own = std::span(batch.old->pair_NM).subspan(first, count);
    old = own;
    if (batch.first) kept = own;
  }
  weight = std::span(routes.weight_N)
               .subspan(static_cast<std::size_t>(batch.first_state), static_cast<std::size_t>(tokens));
  // from_blob wants a pointer to mutable memory; nothing writes through these tensors.
  const auto as_tensor = [&](std::span<const std::int32_t> ids) {
    return at::from_blob(const_cast<std::int32_t*>(ids.data()), {tokens, pairs}, at::kInt);
  };
  source_TM = as_tensor(source);
  destination_TM = as_tensor(destination);
}

std::int64_t PairRows::pairs_present() const {
  return std::count_if(source.begin(), source.end(), [](std::int32_t id) { return id >= 0; });
}

double pair_token_loss(const PairRows& rows, std::int64_t t, std::span<const float> values,
                       std::span<float> grad, float kappa, double& change_squares) {
  const auto m = static_cast<std::size_t>(rows.pairs);
  const std::size_t first = static_cast<std::size_t>(t) * m;
  const double scale = static_cast<double>(rows.weight[static_cast<std::size_t>(t)]) /
                       static_cast<double>(m) / rows.denominator;
  if (!rows.kept.empty())
    std::copy(values.begin(), values.end(), rows.kept.begin() + static_cast<std::ptrdiff_t>(first));
  double loss = 0;
  for (std::size_t i = 0; i < m; ++i) {
    const float change = values[i] - rows.old[first + i];
    const float residual = change - rows.target[first + i];
    const bool present = rows.source[first + i] >= 0;
    loss += present ? scale * static_cast<double>(routing::huber(residual, kappa)) : 0;
    change_squares += present ? static_cast<double>(change) * static_cast<double>(change) : 0;
    grad[i] =
        present ? static_cast<float>(scale * static_cast<double>(routing::huber_slope(residual, kappa))) : 0;
  }
  return loss;
}

std::unique_ptr<Objective> make_pair_objective(const routing::ObjectiveOptions& options,
                                               model::Backend backend) {
  return std::make_unique<PairObjective>(options, backend);
}

std::unique_ptr<Objective> make_union_objective(const routing::ObjectiveOptions& options,
                                                model::Backend backend) {
  return std::make_unique<UnionObjective>(options, backend);
}

}  // namespace routeopd::objective
