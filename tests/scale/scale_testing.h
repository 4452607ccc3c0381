// A workload of round numbers, for arithmetic that can be done by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/scale/prediction.h"

namespace routeopd::scale {

// Two layers of hidden size 10, one head of 10 for queries, keys and values; 100 ids.
inline ModelShape small_model() {
  return {.parameters = 5000,
          .body = 4000,
          .block = 2000,
          .layers = 2,
          .hidden = 10,
          .query = 10,
          .key = 10,
          .vocabulary = 100,
          .tied = true,
          .weight_bytes = 4,
          .activation_floats = 50};
}

// 8 prompts of 2 responses of 6 tokens.
inline Workload small_work() {
  Workload work;
  work.student = small_model();
  work.teachers = {small_model()};
  work.steps = 3;
  work.prompts = 8;
  work.responses_per_prompt = 2;
  work.longest_response = 6;
  work.micro_tokens = 50;
  return work;
}

// A million operations, a million bytes a second; every efficiency is 1.
inline Device small_device() {
  return {.name = "small",
          .bfloat16 = 2e6,
          .float32 = 1e6,
          .memory = 1e6,
          .bandwidth = 1e6,
          .link = 1e5,
          .network = 1e4,
          .per_machine = 4,
          .source = "a test"};
}

inline Assumptions exact_assumptions() {
  Assumptions all;
  all.prompt_tokens = 4;
  all.learner = all.reading = all.bandwidth = all.link = all.usable = 1;
  all.decode_overhead = 0;
  all.route_seconds = 0.001;
  return all;
}

inline Prediction small_prediction(std::int64_t gpus = 1, bool sharded = false) {
  return predict(small_work(), exact_assumptions(), small_device(), {.gpus = gpus, .sharded = sharded});
}

}  // namespace routeopd::scale
