// A recipe: everything a run depends on, in one TOML file. Each field is declared once, in recipe_fields.cpp,
// with its name, help and range; reading, `--set` and the resolved copy in the run directory all come from
// that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "routeopd/routing/options.h"

namespace routeopd::train {

// Of the learner's forward and backward. The optimizer's weights, and checkpoints, are float32.
enum class Dtype { kAuto, kFloat32, kBfloat16 };

struct StudentSection {
  std::string path;
  Dtype dtype = Dtype::kAuto;
  std::string device = "cpu";  // of the learner
};

// Who computes: this process, or servers.
enum class EngineKind { kLocal, kServe, kVllm, kSglang };

struct ServersSection {
  EngineKind engine = EngineKind::kLocal;
  std::vector<std::string> urls;  // of its servers
  std::string api_key_env;        // variable that holds their key; empty: none
  double patience = 600;          // seconds to wait for a server before the run stops
  std::int32_t requests = 32;     // most in flight at a server
  double request_seconds = 3600;  // deadline of one request
};

struct TeacherSection : ServersSection {
  std::string path;
};

struct DataSection {
  std::string prompts;
  std::string prompt_template = "chat";
  bool shuffle = true;
};

// Whose values the changed student is compared with (docs/training.md): its engine's, captured while it wrote
// or computed again, or those of the learner's own forward before its first update.
enum class OldScores { kAuto, kCapture, kRescore, kLearner };

// Whose forward says what the student's probabilities on U are.
enum class StudentValues { kEngine, kLearner };

// Of states that an engine wrote whose probabilities are not quite the learner's.
enum class RolloutCorrection { kNone, kTruncate };

inline constexpr double kLargestImportance = 2;  // of RolloutCorrection::kTruncate

struct RolloutSection : ServersSection {
  std::int32_t prompts_per_step = 32;
  std::int32_t n = 4;
  double temperature = 1.0;
  double top_p = 1.0;
  std::int64_t max_new_tokens = 16384;
  double kv_memory = 0;  // GB; 0: a quarter of the free memory
  std::string weights;   // directory that its servers see, for the student's weights; empty: OUT/weights
  OldScores old_scores = OldScores::kAuto;
  StudentValues student_values = StudentValues::kEngine;
  RolloutCorrection rollout_correction = RolloutCorrection::kNone;
};

enum class ScheduleKind { kCosine, kConstant };

struct OptimizerSection {
  double lr = 1e-6;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double clip = 1.0;  // global norm; 0: off
  ScheduleKind schedule = ScheduleKind::kCosine;
  double warmup = 0.03;  // share of the updates
};

struct TrainSection {
  std::int64_t steps = 100;
  std::int32_t minibatches = 1;
  std::int32_t epochs = 1;
  std::int64_t micro_tokens = 16384;
  bool recompute = false;
  bool rollouts = false;
  bool diagnostics = true;  // top-k and routes for the metrics, where the loss reads none
  std::int64_t max_bad_steps = 3;
};

struct CheckpointSection {
  std::int64_t every = 50;  // steps; 0: at the end only
  std::int32_t keep = 2;    // 0: all
};

// Evaluations during a run (run/watched_run.h).
struct EvalSection {
  std::int64_t every = 0;  // steps; 0: none
  std::map<std::string, std::string> suites;
  std::int32_t n = 16;
  double temperature = 0.7;
  double top_p = 0.95;
  std::int64_t max_new_tokens = 16384;
};

// Probes during a run, on fixed states of the starting student: fidelity, leakage and mismatch mass on a
// bank, or, where there is none, the mismatch mass alone on states that the run chooses.
struct ProbeSection {
  std::int64_t every = 0;     // steps; 0: none
  std::string bank;           // a file of `probe make`; empty: none
  std::int64_t states = 256;  // without a bank
};

// A teacher of a run. The section is the recipe's, which must outlive it.
struct RunTeacher {
  std::string name;  // of [teachers.NAME]; empty: [teacher]
  const TeacherSection* section = nullptr;

  // How messages call it: "teacher", "teachers.math".
  std::string section_name() const { return name.empty() ? "teacher" : "teachers." + name; }
};

struct Recipe {
  std::uint64_t seed = 42;
  std::string out;
  StudentSection student;
  TeacherSection teacher;
  std::map<std::string, TeacherSection> teachers;  // [teachers.NAME], in place of [teacher]
  std::string default_teacher;                     // [teachers] default: of prompts that name none
  DataSection data;
  RolloutSection rollout;
  routing::ObjectiveOptions objective;
  OptimizerSection optimizer;
  TrainSection train;
  CheckpointSection checkpoint;
  EvalSection eval;
  ProbeSection probe;

  bool sft() const { return objective.loss == routing::Loss::kSft; }
  // [teacher], or all [teachers.NAME] by name; none for the sft arm. Prompt::teacher counts in these.
  std::vector<RunTeacher> run_teachers() const;
  // Whether a step has routes, for the loss or for the metrics.
  bool makes_routes() const { return !sft() && (train.diagnostics || objective.reads_routes()); }
  std::int64_t responses() const {  // per step
    return std::int64_t{rollout.prompts_per_step} * (sft() ? 1 : rollout.n);
  }
  std::int64_t updates() const { return train.steps * train.minibatches * train.epochs; }

  // Whether what happens every `every` steps (0: never) happens after `step`; the last step counts always.
  bool due(std::int64_t every, std::int64_t step) const {
    return every > 0 && (step % every == 0 || step == train.steps);
  }
};

// The file's settings over the defaults, then `settings` ("section.key=value") over the file's. An arm named
// in a setting brings its whole preset with it. Throws UserError for an unknown section or key, with the
// nearest known one.
Recipe read_recipe(const std::string& path, const std::vector<std::string>& settings = {});

// The recipe with `auto` replaced by what it means.
Recipe resolved(Recipe recipe);

// The fields, as section.key, in which two recipes differ.
std::vector<std::string> differences(const Recipe& a, const Recipe& b);

// Throws UserError, with the reason, for a recipe that cannot run or cannot learn. Whoever makes a recipe
// checks it once, before anything is loaded.
void check_recipe(const Recipe& recipe);

// The complete recipe as TOML, each field with its help; read_recipe() reads it back equal.
std::string recipe_text(const Recipe& recipe);

}  // namespace routeopd::train
