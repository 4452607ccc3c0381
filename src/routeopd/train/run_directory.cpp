//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/run_directory.h"

#include <system_error>

#include "routeopd/base/atomic_directory.h"
#include "routeopd/base/atomic_file.h"
#include "routeopd/base/error.h"

namespace routeopd::train {

namespace fs = std::filesystem;

RunDirectory::RunDirectory(const Recipe& recipe) : recipe_(recipe), path_(recipe.out) {
  std::string text;
  try {
    text = recipe_text(recipe);
  } catch (const Json::exception&) {
    throw UserError("recipe: a text in it is not UTF-8; are the paths right?");
  }
  make_result_directory(path_);
  write_file(path_ / "recipe.toml", text);
}

void RunDirectory::discard() {
  std::error_code ignored;
  metrics_.close();
  log_.close();
  rollouts_.close();
  fs::remove_all(path_, ignored);
}

void RunDirectory::append(std::ofstream& file, const char* name, const std::string& line) {
  if (!file.is_open()) file.open(path_ / name, std::ios::app);
  file << line << '\n' << std::flush;
  if (!file) throw UserError("{}: cannot be written; is the disk full?", (path_ / name).string());
}

void RunDirectory::metrics(const Json& step) {
  append(metrics_, "metrics.jsonl", step.dump());
}
void RunDirectory::log(const std::string& line) {
  append(log_, "log.txt", line);
}
void RunDirectory::rollout(const Json& response) {
  append(rollouts_, "rollouts.jsonl", response.dump());
}

fs::path RunDirectory::checkpoint_path(std::int64_t step) const {
  return path_ / "checkpoints" / fmt::format("step_{}", step);
}

void RunDirectory::checkpoint(std::int64_t step, const model::Model& student, const AdamW& optimizer) {
  for (const model::Parameter& parameter : model::parameters(student)) {
    if (!parameter.tensor.isfinite().all().item<bool>())
      throw UserError("{} is not finite after step {}; nothing was saved of it, try a smaller [optimizer] lr",
                      parameter.name, step);
  }
  AtomicDirectory target(checkpoint_path(step));
  model::write_model_files(student, target.path(), recipe_.student.path);
  const fs::path state = target.path() / "state";
  std::error_code failed;
  fs::create_directory(state, failed);
  if (failed) throw UserError("{}: cannot be made ({})", state.string(), failed.message());
  model::save_tensors(state / "optimizer.safetensors", optimizer.state());
  write_file(state / "state.json",
             Json{{"step", step}, {"updates", optimizer.updates()}, {"seed", recipe_.seed}}.dump(2) + "\n");
  target.commit();

  kept_.push_back(step);
  while (recipe_.checkpoint.keep > 0 && std::ssize(kept_) > recipe_.checkpoint.keep) {
    fs::remove_all(checkpoint_path(kept_.front()), failed);
    kept_.erase(kept_.begin());
  }
}

}  // namespace routeopd::train
