// The files of a run: the resolved recipe, metrics.jsonl and TensorBoard events, log.txt, checkpoints/step_N.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/base/files.h"
#include "routeopd/formats/tensorboard_events.h"
#include "routeopd/model/carried_files.h"
#include "routeopd/ranks/group.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/checkpoint.h"
#include "routeopd/train/recipe.h"
#include "routeopd/types/prompt.h"
#include "routeopd/types/rollout.h"
#include "routeopd/types/step_metrics.h"

namespace routeopd::train {

enum class Start {
  kNew,             // the directory must not exist, or be empty
  kResume,          // continues the run in the directory; where there is none, begins one
  kResumeWithGaps,  // also where metrics.jsonl lacks lines of steps that are done
};

// A line of rollouts.jsonl.
struct RolloutLine {
  std::uint32_t prompt = 0;  // Prompt::number
  std::int32_t sample = 0;
  std::string text;
};

// One per response, in their order. Text is decoded where there is a tokenizer (or null).
std::vector<RolloutLine> rollout_lines(const Recipe& recipe, std::int64_t step, const Rollout& rollout,
                                       const std::vector<Prompt>& prompts,
                                       const tokenizer::Tokenizer* tokenizer);

// Those of all ranks, in the order of one process.
std::vector<RolloutLine> gathered_lines(ranks::Group& group, const std::vector<RolloutLine>& own);

class RunDirectory {
 public:
  // Throws UserError when the run is new and recipe.out is not empty, when another process works there, or
  // when a resumed run is given another recipe than it began with.
  RunDirectory(const Recipe& recipe, Start start);

  bool resumed() const { return resumed_; }

  // What the constructor would refuse, told before models are loaded. Changes nothing.
  static void check_place(const Recipe& recipe, Start start);

  // The newest checkpoint that verifies; none where no checkpoint was made yet. Changes nothing. Throws
  // UserError when there are checkpoints and none verifies, when more steps are done than the recipe has, or
  // when the student's configuration or tokenizer is not the checkpoint's.
  std::optional<std::filesystem::path> newest_checkpoint();

  // Removes what is later than `step`: lines and evaluations of later steps, checkpoints that do not verify
  // (renamed), and what a killed process left. recipe.toml is then the new recipe. Throws UserError, before
  // anything is changed, for lines that cannot be read, and for lines of metrics.jsonl that are missing,
  // unless the run goes on with gaps.
  void rewind(std::int64_t step);

  // The metrics of the step that rewind() went back to; all but the step are empty where its line is missing.
  const StepMetrics& last_metrics() const { return last_metrics_; }

  // Lines that are with the system when the call returns.
  void metrics(const StepMetrics& metrics);
  void rollouts(const std::vector<RolloutLine>& lines);
  void log(const std::string& line);

  // Writes checkpoints/step_N; then all but the last `keep` are removed.
  void checkpoint(const RunState& state, const model::Model& student, const Learner& learner);
  bool has_checkpoint(std::int64_t step) const;

  // Removes the run: for one that ends before its first step.
  void discard();

  // SHA-256 of what the run reads, which must be the same when it is resumed: prompts, and weights,
  // configuration and tokenizer of every teacher that has them here.
  const Json& inputs() const { return inputs_; }

 private:
  void append(const char* name, const std::string& line);
  void flush_lines();
  std::filesystem::path checkpoint_path(std::int64_t step) const;
  std::vector<std::int64_t> checkpoints() const;

  Recipe recipe_;
  std::filesystem::path path_;
  bool resumed_ = false;
  bool gaps_ = false;                  // lines of steps that are done may be missing
  bool made_ = false;                  // the directory did not exist
  std::vector<std::int64_t> damaged_;  // steps of checkpoints that do not verify
  std::optional<DirectoryLock> lock_;
  model::CarriedFiles student_files_;  // as the run began: checkpoints have them
  Json inputs_ = Json::object();
  StepMetrics last_metrics_;
  std::map<std::string, std::ofstream> files_;
  std::unique_ptr<formats::TensorboardEvents> events_;
};

}  // namespace routeopd::train
