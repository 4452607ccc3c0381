// Checkpoints: Hugging Face directories with state/ beside the weights, from which a run resumes as if it had
// never stopped. Random numbers are addressed and prompts follow from the step, so a run carries little
// along: weights, the optimizer's state, and four counters.
//
//   step_N/model.safetensors, config.json, tokenizer files   the student, for any tool
//   step_N/state/optimizer.safetensors                       the optimizer's state: AdamW's moments
//   step_N/state/state.json                                  counters, and what the run was
//   step_N/state/manifest.json                               bytes and SHA-256 of every other file
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "routeopd/model/carried_files.h"
#include "routeopd/model/model.h"
#include "routeopd/train/learner.h"

namespace routeopd::train {

// Progress of a run.
struct RunState {
  std::int64_t step = 0;       // steps done
  std::int64_t bad_steps = 0;  // of those, the last ones in a row that made no update
};

// Writes the directory `path`, flushed, whole or not at all; configuration and tokenizer are `like`.
// `inputs` holds hashes of what the run reads. Throws UserError when the disk is full, or a weight is not
// finite.
void write_checkpoint(const std::filesystem::path& path, const model::CarriedFiles& like,
                      const RunState& state, const model::Model& student, const Learner& learner,
                      const Json& inputs);

// Throws UserError naming the file that is missing, differs from the manifest, or is of another step.
void verify_checkpoint(const std::filesystem::path& path, std::int64_t step);

// Restores weights, optimizer and counters. Throws UserError for a checkpoint of another model or other data.
RunState restore_checkpoint(const std::filesystem::path& path, model::Model& student, Learner& learner,
                            const Json& inputs);

}  // namespace routeopd::train
