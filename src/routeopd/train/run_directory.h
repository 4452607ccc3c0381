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

#include "routeopd/base/directory_lock.h"
#include "routeopd/base/fields.h"
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

  // The newest checkpoint that verifies; none where no checkpoint was made yet. What lies behind it is taken away: lines
  // of later steps, and later checkpoints, which get another name. Throws UserError when there are checkpoints and none
  // verifies.
  std::optional<std::filesystem::path> rewind();

  // Lines that are with the system when the call returns.
  void metrics(const Json& step);
  void rollout(const Json& response);
  void log(const std::string& line);

  // checkpoints/step_N. Older ones than the last `keep` are removed once it is there.
  void checkpoint(const RunState& state, const model::Model& student, const Learner& learner);
  bool has_checkpoint(std::int64_t step) const;

  // Removes the run: for one that ends before its first step.
  void discard();

  // Of the prompts file, which names the data; empty where there is no such file.
  const std::string& prompts_sha256() const { return prompts_sha256_; }

 private:
  void append(const char* name, const std::string& line);
  void flush_lines();
  std::filesystem::path checkpoint_path(std::int64_t step) const;
  std::vector<std::int64_t> checkpoints() const;

  Recipe recipe_;
  std::filesystem::path path_;
  bool resumed_ = false;
  std::optional<DirectoryLock> lock_;
  std::string prompts_sha256_;
  std::map<std::string, std::ofstream> files_;
  std::unique_ptr<formats::TensorboardEvents> events_;
};

}  // namespace routeopd::train
