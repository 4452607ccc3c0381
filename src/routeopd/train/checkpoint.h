// Checkpoints: Hugging Face directories with state/ beside the weights, from which a run goes on as if it had never
// stopped. Random numbers are addressed and prompts follow from the step, so what a run carries along is little: weights,
// moments, and four counters.
//
//   step_N/model.safetensors, config.json, tokenizer files   the student, for any tool
//   step_N/state/optimizer.safetensors                       AdamW's moments
//   step_N/state/state.json                                  counters, and what the run was
//   step_N/state/manifest.json                               bytes and SHA-256 of every other file
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "routeopd/model/model.h"
#include "routeopd/train/learner.h"

namespace routeopd::train {

// Where a run stands.
struct RunState {
  std::int64_t step = 0;       // done
  std::int64_t bad_steps = 0;  // the last ones in a row that made no update
};

// Writes `path`, flushed, whole or not at all; configuration and tokenizer are those of `like`. `inputs` names what
// the run reads. Throws UserError when the disk does not take it, or a weight is not finite.
void write_checkpoint(const std::filesystem::path& path, const std::filesystem::path& like,
                      const RunState& state, const model::Model& student, const Learner& learner,
                      const Json& inputs);

// Throws UserError with the file that is missing, is not what the manifest says, or is of another step.
void verify_checkpoint(const std::filesystem::path& path, std::int64_t step);

// Puts weights, moments and counters in place. Throws UserError when the checkpoint is of another model or other data.
RunState restore_checkpoint(const std::filesystem::path& path, model::Model& student, Learner& learner,
                            const Json& inputs);

}  // namespace routeopd::train
