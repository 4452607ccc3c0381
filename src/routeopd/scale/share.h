// What the busiest device of a step has to do. Prompts are dealt whole, and a step ends with its last device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/scale/assumptions.h"
#include "routeopd/scale/lengths.h"
#include "routeopd/scale/workload.h"

namespace routeopd::scale {

struct Share {
  double prompts = 0, responses = 0;
  double prompt_length = 0;    // tokens of one
  double prompt_tokens = 0;    // of all, each prompt once
  double response_tokens = 0;  // at least those of the step's longest response
  double squares = 0;          // sum of the squared lengths of the responses
  double longest = 0;          // tokens of the step's longest response, on whatever device

  double tokens() const { return prompt_tokens + response_tokens; }
};

Lengths lengths_of(const Workload& workload, const Assumptions& assumptions);

Share share_of(const Workload& workload, const Assumptions& assumptions, std::int64_t gpus);

// Operations of attention in one forward over a share: 4 per query number and position attended to. Prompts
// attend to themselves, responses to their prompt and to themselves.
double attention_operations(const ModelShape& model, const Share& share);

// Operations of one forward without the LM head.
double forward_operations(const ModelShape& model, const Share& share);

}  // namespace routeopd::scale
