// A laboratory pair from nothing: a teacher that learnt to solve the task, first from right solutions, then
// for a while from ones with a seldom slip; and a base student, a smaller model of its own, that learnt from
// right solutions too and then took on wrong habits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "routeopd/lab/make_options.h"
#include "routeopd/lab/task.h"

namespace routeopd::lab {

// Called after each step: what is being trained, the step, of how many, the loss.
using MakeWatch =
    std::function<void(const std::string& what, std::int64_t step, std::int64_t steps, double loss)>;

// Writes DIRECTORY/{teacher,base} (Hugging Face directories), train.jsonl with its record of decontamination
// against the others, validation.jsonl, heldout.jsonl and lab.json (lab_file.h); whole or not at all.
void make_laboratory(const std::filesystem::path& directory, const Task& task, const MakeOptions& options,
                     const MakeWatch& watch = {});

// tokenizer.json of a task: byte-level BPE whose words are whole tokens.
Json tokenizer_json(const Task& task);

}  // namespace routeopd::lab
