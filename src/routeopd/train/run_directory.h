// The files of a run: the resolved recipe, metrics.jsonl, log.txt, checkpoints/step_N.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/model/model.h"
#include "routeopd/train/optimizer.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

class RunDirectory {
 public:
  // Throws UserError when recipe.out exists and is not empty.
  explicit RunDirectory(const Recipe& recipe);

  const std::filesystem::path& path() const { return path_; }

  // One line each, on the disk when the call returns.
  void metrics(const Json& step);
  void log(const std::string& line);
  void rollout(const Json& response);

  // checkpoints/step_N: a Hugging Face directory with state/ (moments and counters), whole or not at all. Older ones
  // than the last `keep` are removed once it is there.
  void checkpoint(std::int64_t step, const model::Model& student, const AdamW& optimizer);

  // Removes the run: for one that ends before its first step.
  void discard();

  std::filesystem::path checkpoint_path(std::int64_t step) const;

 private:
  void append(std::ofstream& file, const char* name, const std::string& line);

  Recipe recipe_;
  std::filesystem::path path_;
  std::ofstream metrics_, log_, rollouts_;
  std::vector<std::int64_t> kept_;  // steps of the checkpoints that are there
};

}  // namespace routeopd::train
