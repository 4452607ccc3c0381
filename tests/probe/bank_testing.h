// A small bank of the tiny pair.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/engine/local_engine.h"
#include "routeopd/probe/bank.h"
#include "tiny_models.h"

namespace routeopd::probe {

inline constexpr std::int32_t kTinyIds = 90;

struct TinyPair {
  model::Model student = model::load_model(tiny("student"));
  model::Model teacher = model::load_model(tiny("teacher"));
};

inline Bank tiny_bank(const TinyPair& pair, std::int64_t states = 40,
                      const Json& settings = {{"k", 6}, {"m", 3}}) {
  std::vector<Prompt> prompts(8);
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    prompts[i].number = i;
    prompts[i].ids = {static_cast<std::int32_t>(5 + 7 * i), 3};
  }
  BankOptions options;
  options.states = states;
  options.max_new_tokens = 12;
  options.seed = 5;
  options.objective = routing::objective_from(settings);
  engine::LocalEngine writer(pair.student, kTinyIds);
  return make_bank(visit_states(writer, prompts, options), pair.student, pair.teacher, kTinyIds, options);
}

}  // namespace routeopd::probe
