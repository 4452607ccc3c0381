// SPDX-License-Identifier: Apache-2.0
#include "routeopd/objective/log_prob_objectives.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/kernels/dense_rows.h"
#include "routeopd/model/heads/dense_head.h"
#include "routeopd/objective/sparse_objectives.h"

namespace routeopd::objective {
namespace {

// The log-probability of one more id of each token, told from a row that is there anyway.
struct Aside {
  std::function<std::int32_t(std::int64_t t)> id;  // -1: none
  std::function<void(std::int64_t t, double log_prob)> tell;
};

// The same from rows of a chunk on any device: one gather, and one copy to the host.
void tell_aside(const Aside& aside, std::int64_t begin, std::int64_t end, const at::Tensor& logits_CR,
                const at::Tensor& lse_C1, const std::function<bool(std::int64_t t)>& takes_part) {
  std::vector<std::int64_t> ids_C;
  for (std::int64_t t = begin; t < end; ++t) ids_C.push_back(takes_part(t) ? aside.id(t) : -1);
  const at::Tensor ids_C1 = at::tensor(ids_C, at::kLong).clamp_min(0).unsqueeze(1).to(logits_CR.device());
  const at::Tensor log_probs_C =
      (logits_CR.gather(1, ids_C1) - lse_C1).to(at::kCPU, at::kDouble).contiguous();
  for (std::int64_t t = begin; t < end; ++t)
    if (ids_C[static_cast<std::size_t>(t - begin)] >= 0)
      aside.tell(t, log_probs_C.const_data_ptr<double>()[t - begin]);
}

// A loss of the log-probabilities at `ids` (T x M, -1: none) as a loss of whole rows of logits, in both of
// the dense head's forms.
model::DenseLoss on_rows(std::span<const std::int32_t> ids, std::int64_t ids_a_token,
                         const model::TokenLoss& loss, const Aside& aside = {}) {
  const auto m = static_cast<std::size_t>(ids_a_token);
  const auto ids_of = [ids, m](std::int64_t t) { return ids.subspan(static_cast<std::size_t>(t) * m, m); };
  const auto any = [](std::span<const std::int32_t> some) {
    return std::any_of(some.begin(), some.end(), [](std::int32_t id) { return id >= 0; });
  };
  model::DenseLoss dense;
  dense.row = [=](std::int64_t t, std::span<const float> logits, std::span<float> grad) {
    const auto chosen = ids_of(t);
    if (!any(chosen)) {
      std::fill(grad.begin(), grad.end(), 0.0F);
      return 0.0;
    }
    const kernels::RowLse lse = kernels::row_logsumexp(logits);
    thread_local std::vector<float> log_probs, slopes;
    log_probs.resize(m);
    slopes.resize(m);
    for (std::size_t i = 0; i < m; ++i) {
      const std::int32_t id = chosen[i];
      log_probs[i] = id < 0 ? 0 : static_cast<float>(lse.log_prob(logits[static_cast<std::size_t>(id)]));
    }
    if (const std::int32_t id = aside.id ? aside.id(t) : -1; id >= 0)
      aside.tell(t, lse.log_prob(logits[static_cast<std::size_t>(id)]));
    const double value = loss(t, log_probs, slopes);
    double total = 0;
    for (std::size_t i = 0; i < m; ++i) total += chosen[i] < 0 ? 0.0 : static_cast<double>(slopes[i]);
    if (grad.data() != logits.data()) std::copy(logits.begin(), logits.end(), grad.begin());
    kernels::row_softmax(grad, lse, -total);
    for (std::size_t i = 0; i < m; ++i) {
      if (chosen[i] >= 0) grad[static_cast<std::size_t>(chosen[i])] += slopes[i];
    }
    return value;
  };
  dense.chunk = [=](std::int64_t begin, std::int64_t end, at::Tensor& logits_CR) {
    const auto chosen =
        ids.subspan(static_cast<std::size_t>(begin) * m, static_cast<std::size_t>(end - begin) * m);
    const at::Tensor ids_CM =
        at::from_blob(const_cast<std::int32_t*>(chosen.data()), {end - begin, ids_a_token}, at::kInt)
            .to(logits_CR.device(), at::kLong);
    const at::Tensor lse_C1 = logits_CR.logsumexp(1, true);
    const at::Tensor at_ids_CM = logits_CR.gather(1, ids_CM.clamp_min(0)) - lse_C1;
    const at::Tensor log_probs_CM = at_ids_CM.to(at::kCPU, at::kFloat).contiguous();
    at::Tensor slopes_CM = at::zeros_like(log_probs_CM);
    double value = 0;
    if (aside.id)
      tell_aside(aside, begin, end, logits_CR, lse_C1, [&](std::int64_t t) { return any(ids_of(t)); });
    for (std::int64_t t = begin; t < end; ++t) {
      if (!any(ids_of(t))) continue;
      const auto row = [&](const at::Tensor& tensor) {
        return tensor.data_ptr<float>() + (t - begin) * ids_a_token;
      };
      value += loss(t, {row(log_probs_CM), m}, {row(slopes_CM), m});
    }
    const at::Tensor slopes =
        at::where(ids_CM < 0, at::zeros({}, logits_CR.options()), slopes_CM.to(logits_CR.options()));
    logits_CR.sub_(lse_C1)
        .exp_()
        .mul_(slopes.sum(1, true).neg())
        .scatter_add_(1, ids_CM.clamp_min(0), slopes);
    return value;
  };
  return dense;
}

// Log-probabilities of the rows of one chunk at `ids` (C x M, -1: none, 0 is written), on any device.
void chunk_log_probs_at(std::span<const std::int32_t> ids, const at::Tensor& logits_CR,
                        std::span<float> log_probs) {
  const std::int64_t rows = logits_CR.size(0);
  const at::Tensor ids_CM =
      at::from_blob(const_cast<std::int32_t*>(ids.data()), {rows, std::ssize(ids) / rows}, at::kInt)
          .to(logits_CR.device(), at::kLong);
  const at::Tensor all_CM = (logits_CR.gather(1, ids_CM.clamp_min(0)) - logits_CR.logsumexp(1, true))
                                .masked_fill(ids_CM < 0, 0)
                                .to(at::kCPU, at::kFloat)
                                .contiguous();
  std::copy_n(all_CM.const_data_ptr<float>(), log_probs.size(), log_probs.begin());
}

// Log-probabilities at `ids` (T x M, -1: none, 0 is written) without a gradient, as the losses on rows see
// them.
void log_probs_at(std::span<const std::int32_t> ids, std::int64_t ids_a_token, const LearnerBatch& batch,
                  model::Backend backend, std::span<float> log_probs) {
  const c10::NoGradGuard no_grad;
  const std::int64_t tokens = batch.hidden_TH.size(0);
  at::Tensor buffer_CR = at::empty({std::min(model::kDenseChunk, tokens), batch.real_ids},
                                   batch.hidden_TH.options().dtype(at::kFloat));
  for (std::int64_t begin = 0; begin < tokens; begin += model::kDenseChunk) {
    const std::int64_t end = std::min(begin + model::kDenseChunk, tokens);
    at::Tensor logits_CR = buffer_CR.slice(0, 0, end - begin);
    model::dense_logits(batch.hidden_TH.slice(0, begin, end), batch.weight_VH, batch.real_ids, logits_CR);
    if (backend == model::Backend::kAten || !logits_CR.is_cpu()) {
      const auto first = static_cast<std::size_t>(begin * ids_a_token);
      const auto count = static_cast<std::size_t>((end - begin) * ids_a_token);
      chunk_log_probs_at(ids.subspan(first, count), logits_CR, log_probs.subspan(first, count));
      continue;
    }
    at::parallel_for(begin, end, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t t = from; t < to; ++t) {
        const std::span row(logits_CR.const_data_ptr<float>() + (t - begin) * batch.real_ids,
                            static_cast<std::size_t>(batch.real_ids));
        const kernels::RowLse lse = kernels::row_logsumexp(row);
        for (auto i = static_cast<std::size_t>(t * ids_a_token);
             i < static_cast<std::size_t>((t + 1) * ids_a_token); ++i)
          log_probs[i] =
              ids[i] < 0 ? 0 : static_cast<float>(lse.log_prob(row[static_cast<std::size_t>(ids[i])]));
      }
    });
  }
}

class OneSidedObjective : public Objective {
 public:
  OneSidedObjective(const routing::ObjectiveOptions& options, model::Backend backend)
      : side_(options.side), kappa_(static_cast<float>(options.kappa)), backend_(backend) {}

  bool dense() const override { return true; }
  bool reads_old() const override { return true; }

  void record(const LearnerBatch& batch) const override {
    const PairRows rows(batch);
    log_probs_at(ids_of(rows), rows.pairs, batch, backend_, rows.kept);
  }

  ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                       model::HeadGradient& grad_weight) const override {
    const PairRows rows(batch);
    GapMeter gap = batch.gap_meter();
    Aside taken;
    if (batch.first && batch.engine_logprob_N != nullptr && batch.sampled_id_N != nullptr) {
      taken.id = [&](std::int64_t t) { return batch.sampled_id_N[batch.first_state + t]; };
      taken.tell = [&](std::int64_t t, double log_prob) {
        gap.logprob(t, log_prob, static_cast<double>(batch.engine_logprob_N[batch.first_state + t]));
      };
    }
    std::vector<double> change_squares_T(static_cast<std::size_t>(rows.tokens), 0);
    const model::TokenLoss loss = [&](std::int64_t t, std::span<const float> log_probs,
                                      std::span<float> slopes) {
      return pair_token_loss(rows, t, log_probs, slopes, kappa_,
                             change_squares_T[static_cast<std::size_t>(t)]);
    };
    ObjectiveResult result;
    result.loss = model::dense_head_step(batch.hidden_TH, batch.weight_VH, batch.real_ids,
                                         on_rows(ids_of(rows), rows.pairs, loss, taken), grad_hidden_TH,
                                         grad_weight, backend_);
    result.change_squares = std::accumulate(change_squares_T.begin(), change_squares_T.end(), 0.0);
    result.changes = rows.pairs_present();
    result.gap = gap.total();
    return result;
  }

 private:
  std::span<const std::int32_t> ids_of(const PairRows& rows) const {
    return side_ == routing::Side::kSource ? rows.source : rows.destination;
  }

  routing::Side side_;
  float kappa_;
  model::Backend backend_;
};

// -rho A (eq. sampled-opd-advantage), with an optional clip of the ratio. Both rho and A have one old value:
// with the learner's own, rho is 1 at the first update, and A is what the learner itself lacks. A weight for
// the distance of the writing engine from that value is a constant: it scales the state's loss and gradient.
class SampledRklObjective : public Objective {
 public:
  SampledRklObjective(const routing::ObjectiveOptions& options, model::Backend backend)
      : ratio_clip_(options.ratio_clip), log_delta_p_(std::log(options.delta_p)), backend_(backend) {}

  bool dense() const override { return true; }
  bool reads_old() const override { return true; }

  void record(const LearnerBatch& batch) const override {
    const auto tokens = static_cast<std::size_t>(batch.hidden_TH.size(0));
    log_probs_at({batch.sampled_id_N + batch.first_state, tokens}, 1, batch, backend_,
                 {batch.old->logprob_N.data() + batch.first_state, tokens});
  }

  ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                       model::HeadGradient& grad_weight) const override {
    ROUTEOPD_INVARIANT(batch.sampled_id_N && batch.sampled_old_logprob_N && batch.sampled_teacher_logprob_N);
    ROUTEOPD_INVARIANT(batch.importance_cap == 0 || (batch.old && batch.engine_logprob_N));
    const std::int64_t tokens = batch.hidden_TH.size(0);
    const std::span actions(batch.sampled_id_N + batch.first_state, static_cast<std::size_t>(tokens));
    float* const own = batch.old ? batch.old->logprob_N.data() + batch.first_state : nullptr;
    const float* old = own ? own : batch.sampled_old_logprob_N + batch.first_state;
    const float* engine = batch.engine_logprob_N ? batch.engine_logprob_N + batch.first_state : nullptr;
    GapMeter gap = batch.gap_meter();
    const float* teacher = batch.sampled_teacher_logprob_N + batch.first_state;
    std::vector<double> change_squares_T(static_cast<std::size_t>(tokens), 0);
    const model::TokenLoss loss = [&](std::int64_t t, std::span<const float> log_probs,
                                      std::span<float> slopes) {
      if (own && batch.first) own[t] = log_probs[0];
      if (engine && batch.first)
        gap.logprob(t, static_cast<double>(log_probs[0]), static_cast<double>(engine[t]));
      const double log_ratio = static_cast<double>(log_probs[0]) - static_cast<double>(old[t]);
      change_squares_T[static_cast<std::size_t>(t)] = log_ratio * log_ratio;
      const double weight = batch.importance_cap > 0
                                ? std::min(batch.importance_cap, std::exp(static_cast<double>(old[t]) -
                                                                          static_cast<double>(engine[t])))
                                : 1.0;
      return token_loss(log_ratio, weight * advantage(teacher[t], old[t]), batch.denominator, slopes[0]);
    };
    ObjectiveResult result;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const bool acted = actions[static_cast<std::size_t>(t)] >= 0;
      result.changes += acted ? 1 : 0;
      result.floored += acted && teacher[t] == -std::numeric_limits<float>::infinity() ? 1 : 0;
    }
    result.loss = model::dense_head_step(batch.hidden_TH, batch.weight_VH, batch.real_ids,
                                         on_rows(actions, 1, loss), grad_hidden_TH, grad_weight, backend_);
    result.change_squares = std::accumulate(change_squares_T.begin(), change_squares_T.end(), 0.0);
    result.gap = gap.total();
    return result;
  }

 private:
  double advantage(float teacher, float old) const {
    const bool none = teacher == -std::numeric_limits<float>::infinity();
    return (none ? log_delta_p_ : static_cast<double>(teacher)) - static_cast<double>(old);
  }

  double token_loss(double log_ratio, double advantage, double denominator, float& slope) const {
    const double ratio = std::exp(log_ratio);
    slope = static_cast<float>(-ratio * advantage / denominator);
    if (ratio_clip_ > 0) {
      const double clipped = std::clamp(ratio, 1 - ratio_clip_, 1 + ratio_clip_);
      if (clipped * advantage < ratio * advantage) {
        slope = 0;
        return -clipped * advantage / denominator;
      }
    }
    return -ratio * advantage / denominator;
  }

  double ratio_clip_;
  double log_delta_p_;
  model::Backend backend_;
};

// -log pi_theta(a): supervised fine-tuning on given responses.
class SftObjective : public Objective {
 public:
  explicit SftObjective(model::Backend backend) : backend_(backend) {}

  bool dense() const override { return true; }

  ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                       model::HeadGradient& grad_weight) const override {
    ROUTEOPD_INVARIANT(batch.sampled_id_N && batch.denominator > 0);
    const std::span actions(batch.sampled_id_N + batch.first_state,
                            static_cast<std::size_t>(batch.hidden_TH.size(0)));
    const model::TokenLoss loss = [&](std::int64_t, std::span<const float> log_probs,
                                      std::span<float> slopes) {
      slopes[0] = static_cast<float>(-1 / batch.denominator);
      return -static_cast<double>(log_probs[0]) / batch.denominator;
    };
    ObjectiveResult result;
    result.loss = model::dense_head_step(batch.hidden_TH, batch.weight_VH, batch.real_ids,
                                         on_rows(actions, 1, loss), grad_hidden_TH, grad_weight, backend_);
    return result;
  }

 private:
  model::Backend backend_;
};

}  // namespace

std::unique_ptr<Objective> make_log_prob_objective(const routing::ObjectiveOptions& options,
                                                   model::Backend backend) {
  if (options.loss == routing::Loss::kSampledRkl)
    return std::make_unique<SampledRklObjective>(options, backend);
  if (options.loss == routing::Loss::kSft) return std::make_unique<SftObjective>(backend);
  return std::make_unique<OneSidedObjective>(options, backend);
}

}  // namespace routeopd::objective
