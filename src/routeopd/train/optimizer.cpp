// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/optimizer.h"

#include <c10/core/GradMode.h>

#include <cmath>

#include "routeopd/base/error.h"

namespace routeopd::train {

std::int64_t Optimizer::bytes() const {
  std::int64_t sum = 0;
  for (const model::Parameter& part : state()) sum += static_cast<std::int64_t>(part.tensor.nbytes());
  return sum;
}

std::unique_ptr<Optimizer> make_optimizer(std::vector<model::Parameter> weights,
                                          const OptimizerSection& options) {
  return std::make_unique<AdamW>(std::move(weights), options);
}

double clip_to_norm(std::vector<at::Tensor>& gradients, double largest) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients)
    norms.push_back(at::linalg_vector_norm(gradient).to(at::kDouble));
  double squares = 0;
  if (!norms.empty()) {
    const at::Tensor on_host = at::stack(norms).to(at::kCPU);  // one copy from a device, not one per tensor
    for (std::int64_t i = 0; i < on_host.numel(); ++i) {
      const double norm = on_host.const_data_ptr<double>()[i];
      squares += norm * norm;
    }
  }
  const double norm = std::sqrt(squares);
  if (std::isfinite(norm) && largest > 0 && norm > largest) {
    // 1e-6 as in torch.nn.utils.clip_grad_norm_.
    for (at::Tensor& gradient : gradients) gradient.mul_(largest / (norm + 1e-6));
  }
  return norm;
}

AdamW::AdamW(std::vector<model::Parameter> weights, const OptimizerSection& options) : options_(options) {
  for (model::Parameter& weight : weights) {
    names_.push_back(std::move(weight.name));
    weights_.push_back(weight.tensor);
    first_.push_back(at::zeros_like(weight.tensor));
    second_.push_back(at::zeros_like(weight.tensor));
    steps_.push_back(at::zeros({}, weight.tensor.options().dtype(at::kFloat)));  // read beside the weight
  }
}

double AdamW::step(std::vector<at::Tensor>& gradients, double lr) {
  const c10::NoGradGuard no_grad;
  ROUTEOPD_INVARIANT(gradients.size() == weights_.size());
  const double norm = clip_to_norm(gradients, options_.clip);
  if (!std::isfinite(norm)) return norm;
  for (at::Tensor& step : steps_) step.add_(1);
  at::_fused_adamw_(weights_, gradients, first_, second_, {}, steps_, lr, options_.beta1, options_.beta2,
                    options_.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
  ++updates_;
  return norm;
}

std::vector<model::Parameter> AdamW::state() const {
  std::vector<model::Parameter> all;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    all.push_back({"exp_avg." + names_[i], first_[i]});
    all.push_back({"exp_avg_sq." + names_[i], second_[i]});
  }
  return all;
}

void AdamW::resume(std::int64_t updates) {
  updates_ = updates;
  for (at::Tensor& step : steps_) step.fill_(static_cast<double>(updates));
}

}  // namespace routeopd::train
