// AdamW on ATen's fused kernel, with a clip of the gradient's global norm. The same arithmetic as torch.optim.AdamW.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "routeopd/model/model.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

// Scales all gradients together so that their global norm is at most `largest` (0: no limit); returns the norm before.
// Where that is not finite nothing is changed.
double clip_to_norm(std::vector<at::Tensor>& gradients, double largest);

class AdamW {
 public:
  AdamW(std::vector<model::Parameter> parameters, const OptimizerSection& options);

  // Clips `gradients` (one a parameter, same order) in place to the largest norm and updates the weights. Returns the
  // norm before the clip. Where it is not finite nothing is changed.
  double step(std::vector<at::Tensor>& gradients, double lr);

  std::int64_t updates() const { return updates_; }

  // exp_avg.NAME and exp_avg_sq.NAME of every parameter: the tensors themselves.
  std::vector<model::Parameter> state() const;

  // Goes on after so many updates, with the moments that were put into state().
  void resume(std::int64_t updates);

 private:
  std::vector<model::Parameter> parameters_;
  OptimizerSection options_;
  std::vector<at::Tensor> weights_, first_, second_, steps_;
  std::int64_t updates_ = 0;
};

}  // namespace routeopd::train
