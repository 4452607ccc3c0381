// What an engine throws where a model's logits are NaN or infinite while it writes: a run may leave the step out.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/base/error.h"

namespace routeopd::engine {

class NonFiniteLogits : public UserError {
 public:
  using UserError::UserError;
};

}  // namespace routeopd::engine
