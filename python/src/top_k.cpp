// The operator that reads a whole head: top-k, log-sum-exp and logits at given ids, tile by tile.
// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

namespace routeopd::python {

STABLE_TORCH_LIBRARY_FRAGMENT(routeopd, library) {
  library.def(
      "top_k(Tensor hidden, Tensor weight, Tensor? bias, Tensor? gather, int k, int real_ids, float "
      "logit_scale, "
      "float softcap) -> (Tensor, Tensor, Tensor, Tensor)");
}

}  // namespace routeopd::python
