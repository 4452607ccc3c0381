// The optimizer: what turns gradients into new weights. The learner, checkpoints and the memory plan know the
// interface alone; another optimizer is a class here and a line in make_optimizer().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "routeopd/model/model.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates the weights by `gradients` (one per weight, same order), which are clipped in place to the
  // largest norm. Returns the norm before the clip. Where it is not finite nothing is changed.
  virtual double step(std::vector<at::Tensor>& gradients, double lr) = 0;

  // Updates made so far.
  virtual std::int64_t updates() const = 0;

  // What a checkpoint keeps beside the weights: the tensors themselves, under their names in its file.
  virtual std::vector<model::Parameter> state() const = 0;

  // Continues after `updates` updates, with the values that were read into state().
  virtual void resume(std::int64_t updates) = 0;

  // What a memory plan calls it and says of it.
  virtual std::string name() const = 0;
  virtual std::string state_text() const = 0;

  // Bytes of state(). For weights without memory (on the device kMeta), those that it would have.
  std::int64_t bytes() const;
};

// The optimizer of a recipe over `weights`, which it updates in place.
std::unique_ptr<Optimizer> make_optimizer(std::vector<model::Parameter> weights,
                                          const OptimizerSection& options);

// Scales all gradients together so that their global norm is at most `largest` (0: no limit); returns the
// norm before. Where that is not finite nothing is changed.
double clip_to_norm(std::vector<at::Tensor>& gradients, double largest);

// AdamW on ATen's fused kernel: the arithmetic of torch.optim.AdamW. Its state is exp_avg.NAME and
// exp_avg_sq.NAME of every weight.
class AdamW : public Optimizer {
 public:
  AdamW(std::vector<model::Parameter> weights, const OptimizerSection& options);

  double step(std::vector<at::Tensor>& gradients, double lr) override;
  std::int64_t updates() const override { return updates_; }
  std::vector<model::Parameter> state() const override;
  void resume(std::int64_t updates) override;
  std::string name() const override { return "AdamW"; }
  std::string state_text() const override { return "two moments, float32"; }

 private:
  std::vector<std::string> names_;
  OptimizerSection options_;
  std::vector<at::Tensor> weights_, first_, second_, steps_;
  std::int64_t updates_ = 0;
};

}  // namespace routeopd::train
