// Activation recomputation: a part of the forward keeps its input alone, and runs once more in the backward.
// Memory falls from all activations of a block to one [T, H]; time grows by one forward of the block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace routeopd::model {

// block(x), which must give the same when it is called again. `weights` are the tensors it uses that may want
// a gradient; undefined ones are not allowed. Without gradients, this is block(x).
at::Tensor recomputed(std::function<at::Tensor(const at::Tensor&)> block, const at::Tensor& x,
                      const std::vector<at::Tensor>& weights);

}  // namespace routeopd::model
