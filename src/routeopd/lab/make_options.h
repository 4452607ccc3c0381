// What `lab make` is asked for: the models' sizes and how long each learns, and how many problems are
// written. Each option is declared once; the command line and lab.json come from that table. A family of
// tasks has its own defaults (Task::make_options()); those here are of "sums".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "routeopd/base/fields.h"

namespace routeopd::lab {

struct MakeOptions {
  std::uint64_t seed = 42;
  std::int64_t teacher_hidden = 128;
  std::int64_t teacher_layers = 3;
  std::int64_t teacher_steps = 1800;  // of 32 right solutions
  std::int64_t mild_steps = 150;      // of solutions in the teacher's style
  std::int64_t student_hidden = 64;
  std::int64_t student_layers = 2;
  std::int64_t student_steps = 1300;  // of right solutions
  std::int64_t base_steps = 300;      // of solutions in the base student's style
  std::int64_t train_prompts = 4096;
  std::int64_t validation_problems = 64;
  std::int64_t heldout_problems = 200;
};

const Fields<MakeOptions>& make_fields();

// `options` with the values that `settings`, an object, has. Throws UserError for an unknown name or a value
// out of range.
MakeOptions with_settings(MakeOptions options, const Json& settings);

Json json_of(const MakeOptions& options);

}  // namespace routeopd::lab
