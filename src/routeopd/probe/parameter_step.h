// The change of all parameters that one optimizer update would make, from the gradients: fresh AdamW (no
// moments), a run's own AdamW (the moments of a checkpoint), plain gradient descent.
//
//   fresh AdamW   -lr (g / (|g| + eps) + decay theta): the first update of torch.optim.AdamW, whose bias
//                 corrections leave m = g and v = g^2
//   saved AdamW   -lr (m' / (sqrt(v') + eps) + decay theta), m' and v' the bias-corrected moments after g
//   SGD           -lr g
//
// Gradients are clipped to the recipe's norm first, as in training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "routeopd/formats/safetensors.h"
#include "routeopd/model/model.h"
#include "routeopd/train/recipe.h"

namespace routeopd::probe {

enum class StepRule { kFreshAdamW, kSavedAdamW, kSgd };

// AdamW's moments in a checkpoint's state/, read one tensor at a time: they are never all in memory.
class SavedMoments {
 public:
  // Throws UserError for a directory that is no checkpoint with its state.
  explicit SavedMoments(const std::filesystem::path& checkpoint);

  std::int64_t updates() const { return updates_; }

  // Copies; throw UserError where the file has no such moment, or one of another shape.
  at::Tensor first(const model::Parameter& parameter) const { return read("exp_avg.", parameter); }
  at::Tensor second(const model::Parameter& parameter) const { return read("exp_avg_sq.", parameter); }

 private:
  at::Tensor read(const char* kind, const model::Parameter& parameter) const;

  formats::Safetensors file_;
  std::int64_t updates_ = 0;
};

// Overwrites `gradients` (one per parameter, in order) by the changes. `saved` is read by kSavedAdamW alone.
// Throws UserError when a gradient is not finite.
void make_step(std::vector<at::Tensor>& gradients, const std::vector<model::Parameter>& parameters,
               StepRule rule, const train::OptimizerSection& options, const SavedMoments* saved);

}  // namespace routeopd::probe
