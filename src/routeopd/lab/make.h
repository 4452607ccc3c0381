// The laboratory pair from nothing: a teacher that learnt to solve the task, and a base student, the same model after a
// short further training on solutions with wrong habits.
//
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
  std::int64_t teacher_steps = 1000;
  std::int64_t base_steps = 200;
  std::int64_t train_prompts = 4096;
  std::int64_t heldout_problems = 200;
};

// Called after each step: what is being trained, the step, of how many, the loss.
using MakeWatch = std::function<void(const std::string& what, std::int64_t step, std::int64_t steps, double loss)>;

// Writes DIRECTORY/{teacher,base} (Hugging Face directories), train.jsonl and heldout.jsonl; whole or not at all.
void make_laboratory(const std::filesystem::path& directory, const MakeOptions& options, const MakeWatch& watch = {});

// tokenizer.json of the task: byte-level BPE whose words are whole tokens.
Json tokenizer_json();

}  // namespace routeopd::lab
