// Mismatch over training: states of the base student, frozen with the support and the teacher's values there.
// Later students are scored on the same states, so that their mismatch masses can be compared.
//
// Shapes: N states of the rollout, S of them in the bank, W columns of the widest support.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/routing/options.h"
#include "routeopd/types/rollout.h"

namespace routeopd::probe {

class MismatchBank {
 public:
  // Lets `base` answer the prompts once each at temperature 1 and freezes `states` of the visited states that
  // both models have values for, chosen by addressed random numbers. The teacher reads its own prompts where
  // it has some. Throws UserError when there are fewer.
  MismatchBank(engine::Engine& base, engine::Engine& teacher, std::span<const Prompt> prompts,
               std::int64_t states, std::int64_t max_new_tokens, const routing::ObjectiveOptions& options,
               std::uint64_t seed);

  // With several teachers, each for the prompts that are its own (Prompt::teacher).
  MismatchBank(engine::Engine& base, std::span<engine::Engine* const> teachers,
               std::span<const Prompt> prompts, std::int64_t states, std::int64_t max_new_tokens,
               const routing::ObjectiveOptions& options, std::uint64_t seed);

  // Bytes per visited state that making a bank takes, most of them for the supports of all visited states.
  static std::int64_t bytes_per_state(const routing::ObjectiveOptions& options, std::int32_t real_ids,
                                      std::int64_t hidden_size);

  // Mean mismatch mass of a student on the frozen states, over the frozen supports. Throws UserError where
  // its engine has no answer to one of them.
  double mass(engine::Engine& student) const;

 private:
  Rollout rollout_;
  std::vector<std::size_t> states_S_;
  std::int64_t width_ = 0;
  std::vector<std::int32_t> support_ids_NW_;  // -1 pads, and everywhere outside the bank
  std::vector<double> p_teacher_SW_;
};

}  // namespace routeopd::probe
