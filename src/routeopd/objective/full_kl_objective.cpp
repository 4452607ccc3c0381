// SPDX-License-Identifier: Apache-2.0
#include "routeopd/objective/full_kl_objective.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "routeopd/base/error.h"
#include "routeopd/kernels/dense_rows.h"
#include "routeopd/model/heads/dense_head.h"

namespace routeopd::objective {
namespace {

class FullKlObjective : public Objective {
 public:
  FullKlObjective(const routing::ObjectiveOptions& options, model::Backend backend)
      : reverse_(options.loss == routing::Loss::kFullRkl),
        log_delta_p_(static_cast<float>(std::log(options.delta_p))),
        backend_(backend) {}

  bool dense() const override { return true; }

  ObjectiveResult step(const LearnerBatch& batch, at::Tensor& grad_hidden_TH,
                       model::HeadGradient& grad_weight) const override {
    ROUTEOPD_INVARIANT(batch.teacher_hidden_TX.defined() && batch.teacher_weight_UX.defined());
    ROUTEOPD_INVARIANT(batch.denominator > 0);
    const double scale = 1 / batch.denominator;
    const auto columns = static_cast<std::size_t>(batch.real_ids);
    const auto valid = [&](std::int64_t t) {
      if (batch.routes == nullptr) return true;
      return batch.routes->validity_N[static_cast<std::size_t>(batch.first_state + t)] == Validity::kValid;
    };
    at::Tensor buffer_CR;  // the teacher's logits of the chunk at hand
    std::int64_t first = 0;
    std::atomic<std::int64_t> floored = 0;
    GapMeter gap = batch.gap_meter();
    const auto taken = [&](std::int64_t t) {  // -1: not to be compared
      const bool known = batch.first && batch.engine_logprob_N != nullptr && batch.sampled_id_N != nullptr;
      return known ? batch.sampled_id_N[batch.first_state + t] : -1;
    };
    const auto engine = [&](std::int64_t t) {
      return static_cast<double>(batch.engine_logprob_N[batch.first_state + t]);
    };

    model::DenseLoss loss;
    loss.begin_chunk = [&](std::int64_t begin, std::int64_t end) {
      const bool wide = batch.hidden_TH.scalar_type() == at::kDouble;
      if (!buffer_CR.defined()) {
        buffer_CR = at::empty({end - begin, batch.real_ids},
                              batch.hidden_TH.options().dtype(wide ? at::kDouble : at::kFloat));
      }
      first = begin;
      at::Tensor rows = buffer_CR.slice(0, 0, end - begin);
      model::dense_logits(batch.teacher_hidden_TX.slice(0, begin, end), batch.teacher_weight_UX,
                          batch.real_ids, rows);
    };
    loss.row = [&](std::int64_t t, std::span<const float> logits, std::span<float> grad) {
      if (!valid(t)) {
        std::fill(grad.begin(), grad.end(), 0.0F);
        return 0.0;
      }
      if (const std::int32_t id = taken(t); id >= 0)
        gap.logprob(t, kernels::row_logsumexp(logits).log_prob(logits[static_cast<std::size_t>(id)]),
                    engine(t));
      if (grad.data() != logits.data()) std::copy(logits.begin(), logits.end(), grad.begin());
      const std::span teacher(buffer_CR.const_data_ptr<float>() + (t - first) * batch.real_ids, columns);
      if (!reverse_) return kernels::row_forward_kl(grad, teacher, scale);
      std::int64_t here = 0;
      const double value = kernels::row_reverse_kl(grad, teacher, log_delta_p_, scale, &here);
      floored += here;
      return value;
    };
    loss.chunk = [&](std::int64_t begin, std::int64_t end, at::Tensor& logits_CR) {
      const at::Tensor teacher_CR = buffer_CR.slice(0, 0, end - begin);
      at::Tensor scale_C1 = at::full({end - begin, 1}, scale, at::kDouble);
      at::Tensor taken_C1 = at::full({end - begin, 1}, -1, at::kLong);
      for (std::int64_t t = begin; t < end; ++t) {
        if (!valid(t)) scale_C1[t - begin].zero_();
        taken_C1.mutable_data_ptr<std::int64_t>()[t - begin] = taken(t);
      }
      if (batch.first) {  // one gather and one copy to the host, on any device
        const at::Tensor log_prob_C1 =
            (logits_CR.gather(1, taken_C1.clamp_min(0).to(logits_CR.device())) - logits_CR.logsumexp(1, true))
                .to(at::kCPU, at::kDouble);
        for (std::int64_t t = begin; t < end; ++t)
          if (taken(t) >= 0) gap.logprob(t, log_prob_C1.const_data_ptr<double>()[t - begin], engine(t));
      }
      return chunk_loss(logits_CR, teacher_CR, scale_C1.to(logits_CR.options()), floored);
    };
    ObjectiveResult result;
    result.loss = model::dense_head_step(batch.hidden_TH, batch.weight_VH, batch.real_ids, loss,
                                         grad_hidden_TH, grad_weight, backend_);
    result.floored = floored;
    result.gap = gap.total();
    return result;
  }

 private:
  // The ATen form: replaces the student's logits by the gradient.
  double chunk_loss(at::Tensor& logits_CR, const at::Tensor& teacher_CR, const at::Tensor& scale_C1,
                    std::atomic<std::int64_t>& floored) const {
    const double infinity = std::numeric_limits<double>::infinity();
    const at::Tensor takes_part = logits_CR != -infinity;
    const at::Tensor zero = at::zeros({}, logits_CR.options());
    const at::Tensor log_p = at::log_softmax(logits_CR, 1);
    const at::Tensor log_teacher = at::log_softmax(teacher_CR, 1);
    const at::Tensor p = log_p.exp();
    if (reverse_) {
      const at::Tensor none = teacher_CR == -infinity;
      const at::Tensor counted = at::logical_and(at::logical_and(none, takes_part), scale_C1 > 0);  // valid
      floored += counted.sum().item<std::int64_t>();
      const at::Tensor floor = at::full({}, log_delta_p_, logits_CR.options());
      const at::Tensor log_ratio = at::where(takes_part, log_p - at::where(none, floor, log_teacher), zero);
      const at::Tensor divergence_C1 = (p * log_ratio).sum(1, true);
      logits_CR.copy_(scale_C1 * p * (log_ratio - divergence_C1));
      return (scale_C1 * divergence_C1).sum().item<double>();
    }
    const at::Tensor p_teacher = at::where(takes_part, log_teacher.exp(), zero);
    const at::Tensor term = at::where(p_teacher > 0, p_teacher * (log_teacher - log_p), zero);
    const double value = (scale_C1 * term.sum(1, true)).sum().item<double>();
    logits_CR.copy_(at::where(takes_part, scale_C1 * (p_teacher.sum(1, true) * p - p_teacher), zero));
    return value;
  }

  bool reverse_;
  float log_delta_p_;
  model::Backend backend_;
};

}  // namespace

std::unique_ptr<Objective> make_full_kl_objective(const routing::ObjectiveOptions& options,
                                                  model::Backend backend) {
  return std::make_unique<FullKlObjective>(options, backend);
}

}  // namespace routeopd::objective
