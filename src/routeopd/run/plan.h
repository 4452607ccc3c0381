// What a run will need, computed before it begins: memory by part at the longest responses, tokens per step,
// what the teacher reads. From configurations and prompts alone; no weights are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/recipe.h"

namespace routeopd::run {

struct MemoryPart {
  std::string name;
  std::int64_t bytes = 0;
  std::string what;
};

struct PlannedTeacher {
  std::string section;  // "teacher", "teachers.math"
  std::string path;
  std::int64_t parameters = 0;
};

struct Plan {
  std::int64_t student_parameters = 0, teacher_parameters = 0;  // of all teachers together
  std::vector<PlannedTeacher> teachers;
  std::int64_t prompts = 0, too_long = 0;  // usable ones; skipped ones
  double prompt_tokens = 0;                // mean
  std::int64_t longest_prompt = 0;
  std::string contamination_warning;

  // Per step, with every response at its longest.
  std::int64_t responses = 0;
  std::int64_t response_tokens = 0;
  std::int64_t teacher_calls = 0;   // responses that the teacher reads
  std::int64_t teacher_tokens = 0;  // with the prompts once each
  std::int64_t learner_tokens = 0;  // in one pass over the step's data
  std::int64_t micro_batches = 0;   // at least
  std::int64_t updates = 0;         // of the whole run

  std::int64_t steps = 0;
  double passes = 0;  // over the prompts

  std::vector<MemoryPart> memory;    // of the host
  std::int64_t available_bytes = 0;  // 0: not known
  std::int64_t program_bytes = 0;    // that the process takes already: code, libraries, prompts

  // What the learner has on a device of its own; empty where that is the CPU.
  std::vector<MemoryPart> device_memory;
  std::int64_t device_available_bytes = 0;  // 0: not known

  std::int64_t total_bytes() const;
  std::int64_t device_total_bytes() const;
  std::int64_t peak_bytes() const { return total_bytes() + program_bytes; }  // of the process, at most
  bool fits_host() const { return available_bytes == 0 || total_bytes() <= available_bytes; }
  bool fits_device() const {
    return device_available_bytes == 0 || device_total_bytes() <= device_available_bytes;
  }
  bool fits() const { return fits_host() && fits_device(); }
};

// Throws UserError for weight files that cannot be read.
Plan plan_run(const train::Recipe& recipe, const train::RunPrompts& prompts);

// Throws UserError, with the numbers, for a plan that exceeds the free memory of the host or of the device.
void check_memory(const Plan& plan);

std::string plan_text(const Plan& plan, const train::Recipe& recipe);
Json plan_json(const Plan& plan);

}  // namespace routeopd::run
