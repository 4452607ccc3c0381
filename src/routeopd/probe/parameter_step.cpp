// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/parameter_step.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/train/optimizer.h"

namespace routeopd::probe {
namespace {

constexpr std::int64_t kLongestState = 1 << 20;

}  // namespace

SavedMoments::SavedMoments(const std::filesystem::path& checkpoint)
    : file_(checkpoint / "state" / "optimizer.safetensors") {
  const auto path = checkpoint / "state" / "state.json";
  const Json state = formats::read_json_object(path, kLongestState);
  const Json updates = state.value("updates", Json());
  if (!updates.is_number_integer() || updates.get<std::int64_t>() < 0)
    throw UserError("{}: expected the number of updates", path.string());
  updates_ = updates.get<std::int64_t>();
}

at::Tensor SavedMoments::read(const char* kind, const model::Parameter& parameter) const {
  const formats::TensorView* const view = file_.find(kind + parameter.name);
  if (view == nullptr || view->type != formats::TensorType::kF32 ||
      at::IntArrayRef(view->shape) != parameter.tensor.sizes())
    throw UserError(
        "{}: expected {}{} in float32 and of the student's shape; is it a checkpoint of this student?",
        file_.path().string(), kind, parameter.name);
  at::Tensor tensor = at::empty(view->shape, at::kFloat);
  std::copy(view->bytes.begin(), view->bytes.end(), static_cast<std::byte*>(tensor.data_ptr()));
  return tensor;
}

void make_step(std::vector<at::Tensor>& gradients, const std::vector<model::Parameter>& parameters,
               StepRule rule, const train::OptimizerSection& options, const SavedMoments* saved) {
  const c10::NoGradGuard no_grad;
  if (!std::isfinite(train::clip_to_norm(gradients, options.clip)))
    throw UserError("the gradient on the bank is not finite; are both models' weights whole?");
  const double t = saved == nullptr ? 1 : static_cast<double>(saved->updates() + 1);
  const double first_share = 1 - std::pow(options.beta1, t), second_share = 1 - std::pow(options.beta2, t);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    at::Tensor& change = gradients[i];
    if (rule == StepRule::kFreshAdamW) {
      change.div_(change.abs().add_(options.eps));
    } else if (rule == StepRule::kSavedAdamW) {
      at::Tensor second = saved->second(parameters[i]).mul_(options.beta2);
      second.addcmul_(change, change, 1 - options.beta2);
      change.mul_(1 - options.beta1).add_(saved->first(parameters[i]), options.beta1);
      change.div_(first_share).div_(second.div_(second_share).sqrt_().add_(options.eps));
    }
    if (rule != StepRule::kSgd) change.add_(parameters[i].tensor, options.weight_decay);
    change.mul_(-options.lr);
  }
}

}  // namespace routeopd::probe
