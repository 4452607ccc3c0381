// The laboratory pair from nothing: a teacher that learnt to solve the task, first from right solutions, then
// for a while from ones with a seldom slip; and a base student, the teacher after a short further training on
// wrong habits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "routeopd/base/fields.h"

namespace routeopd::lab {

struct MakeOptions {
  std::uint64_t seed = 42;
  std::int64_t teacher_steps = 1000;  // of right solutions
  std::int64_t mild_steps = 150;      // of solutions in the teacher's style
  std::int64_t base_steps = 200;      // of solutions in the base student's style
  std::int64_t train_prompts = 4096;
  std::int64_t heldout_problems = 200;
};

// Called after each step: what is being trained, the step, of how many, the loss.
using MakeWatch =
    std::function<void(const std::string& what, std::int64_t step, std::int64_t steps, double loss)>;

// Writes DIRECTORY/{teacher,base} (Hugging Face directories), train.jsonl with its record of decontamination,
// and heldout.jsonl; whole or not at all.
void make_laboratory(const std::filesystem::path& directory, const MakeOptions& options,
                     const MakeWatch& watch = {});

// tokenizer.json of the task: byte-level BPE whose words are whole tokens.
Json tokenizer_json();

}  // namespace routeopd::lab
