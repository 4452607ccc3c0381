// The files of a run: the resolved recipe, metrics.jsonl and TensorBoard events, log.txt, checkpoints/step_N.
//
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
#include "routeopd/train/checkpoint.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

enum class Start {
  kNew,     // the directory must not exist, or be empty
  kResume,  // goes on in one that is there; without one, a new run
};

class RunDirectory {
 public:
  // Throws UserError when recipe.out has something and the run is new, when another process works there, or when a run
  // that goes on is asked for another recipe than it began with.
  RunDirectory(const Recipe& recipe, Start start);

  bool resumed() const { return resumed_; }

  // The newest checkpoint that verifies; none where no checkpoint was made yet. Changes nothing. Throws UserError when there
  // are checkpoints and none verifies, or more steps are done than the recipe has.
  std::optional<std::filesystem::path> newest();

  // Takes away what lies behind `step`: lines and evaluations of later steps, later checkpoints (which get another name), and
  // what a killed process left of one. The recipe is then the new one. Throws UserError, before anything is changed, for lines that cannot
  // be read.
  void rewind(std::int64_t step);

  // The last line of metrics.jsonl that rewind() left; an empty object where there is none.
  const Json& last_metrics() const { return last_metrics_; }

  // Lines that are with the system when the call returns.
  void metrics(const Json& step);
  void rollout(const Json& response);
  void log(const std::string& line);

  // checkpoints/step_N. Older ones than the last `keep` are removed once it is there.
  void checkpoint(const RunState& state, const model::Model& student, const Learner& learner);
  bool has_checkpoint(std::int64_t step) const;

  // Removes the run: for one that ends before its first step.
  void discard();

  // SHA-256 of what the run reads, which a run that goes on must find again: prompts, and the teacher's weights.
  const Json& inputs() const { return inputs_; }

 private:
  void append(const char* name, const std::string& line);
  void flush_lines();
  std::filesystem::path checkpoint_path(std::int64_t step) const;
  std::vector<std::int64_t> checkpoints() const;

  Recipe recipe_;
  std::filesystem::path path_;
  bool resumed_ = false, made_ = false;  // the directory was there; was not
  std::vector<std::int64_t> damaged_;    // steps of checkpoints that do not verify
  std::optional<DirectoryLock> lock_;
  Json inputs_ = Json::object();
  Json last_metrics_ = Json::object();
  std::map<std::string, std::ofstream> files_;
  std::unique_ptr<formats::TensorboardEvents> events_;
};

}  // namespace routeopd::train
