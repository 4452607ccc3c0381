// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/recompute.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>

namespace routeopd::model {
namespace {

using torch::autograd::variable_list;
using Block = std::function<at::Tensor(const at::Tensor&)>;

struct Work {
  Block block;
  std::vector<at::Tensor> weights;
};

// The weights are arguments so that autograd treats their gradients as any other: accumulated, or handed to
// the caller.
struct Recompute : torch::autograd::Function<Recompute> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            at::TensorList /*weights*/, std::shared_ptr<Work> work) {
    context->save_for_backward({x});
    context->saved_data["work"] = c10::IValue::make_capsule(c10::make_intrusive<Held>(std::move(work)));
    return held(context).block(x);
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list gradients) {
    const Work& work = held(context);
    const at::Tensor x = context->get_saved_variables().front().detach().requires_grad_(true);
    at::Tensor y;
    {
      const c10::AutoGradMode with_grad(true);
      y = work.block(x);
    }
    variable_list inputs = {x};
    std::vector<bool> wanted = {true};
    for (const at::Tensor& weight : work.weights) {
      wanted.push_back(weight.requires_grad());
      if (weight.requires_grad()) inputs.push_back(weight);
    }
    const variable_list found = torch::autograd::grad({y}, inputs, {gradients.front()}, std::nullopt,
                                                      /*create_graph=*/false, /*allow_unused=*/true);
    variable_list all;
    std::size_t next = 0;
    for (const bool one : wanted) all.push_back(one ? found[next++] : at::Tensor());
    all.emplace_back();  // the work has no gradient
    return all;
  }

 private:
  struct Held : torch::CustomClassHolder {
    explicit Held(std::shared_ptr<Work> its) : work(std::move(its)) {}
    std::shared_ptr<Work> work;
  };
  static const Work& held(torch::autograd::AutogradContext* context) {
    return *c10::static_intrusive_pointer_cast<Held>(context->saved_data["work"].toCapsule())->work;
  }
};

}  // namespace

at::Tensor recomputed(Block block, const at::Tensor& x, const std::vector<at::Tensor>& weights) {
  if (!c10::GradMode::is_enabled()) return block(x);
  auto work = std::make_shared<Work>(Work{std::move(block), weights});
  return Recompute::apply(x, at::TensorList(work->weights), work);
}

}  // namespace routeopd::model
