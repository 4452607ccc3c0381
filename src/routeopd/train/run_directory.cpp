//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/run_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <system_error>
#include <utility>

#include "routeopd/base/atomic_directory.h"
#include "routeopd/base/atomic_file.h"
#include "routeopd/base/error.h"
#include "routeopd/base/sha256.h"

namespace routeopd::train {

namespace fs = std::filesystem;

namespace {

// Files with a line or several a step, each with its `step`, ascending.
constexpr std::array kStepLines = {"metrics.jsonl", "rollouts.jsonl", "probe.jsonl"};

// Fields that a run may change on the way: they change nothing that was computed, or, `steps`, are why it goes on.
constexpr std::array kMayChange = {
    "out",         "train.steps",         "train.rollouts",   "train.max_bad_steps",
    "eval.every",  "eval.suites",         "eval.n",           "eval.temperature",
    "eval.top_p",  "eval.max_new_tokens", "checkpoint.every", "checkpoint.keep",
    "probe.every", "rollout.kv_memory"};

std::string text_of(const Recipe& recipe) {
  try {
    return recipe_text(recipe);
  } catch (const Json::exception&) {
    throw UserError("recipe: a text in it is not UTF-8; are the paths right?");
  }
}

void check_same_recipe(const fs::path& path, const Recipe& recipe) {
  for (const std::string& name : differences(read_recipe((path / "recipe.toml").string()), recipe)) {
    if (std::find(kMayChange.begin(), kMayChange.end(), name) == kMayChange.end())
      throw UserError(
          "{}: {} differs from the recipe that the run began with ({}); say the same, or begin another run",
          path.string(), name, (path / "recipe.toml").string());
  }
}

// Cuts the file before its first line of a later step, or a line that was not finished.
void keep_lines_until(const fs::path& path, std::int64_t step) {
  std::ifstream file(path, std::ios::binary);
  std::uintmax_t kept = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object() || !parsed.contains("step") || !parsed["step"].is_number_integer() ||
        parsed["step"].get<std::int64_t>() > step)
      break;
    kept += line.size() + 1;
  }
  file.close();
  std::error_code failed;
  if (fs::exists(path) && fs::file_size(path) != kept) fs::resize_file(path, kept, failed);
  if (failed) throw UserError("{}: cannot be cut to step {} ({})", path.string(), step, failed.message());
}

std::string time_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text = {};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), length};
}

// Numbers of the object as name/inner tags; what is no number is left out.
void add_scalars(const Json& object, const std::string& prefix,
                 std::vector<std::pair<std::string, double>>& scalars) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) add_scalars(value, prefix + name + "/", scalars);
    if (value.is_number()) scalars.emplace_back(prefix + name, value.get<double>());
  }
}

}  // namespace

RunDirectory::RunDirectory(const Recipe& recipe, Start start) : recipe_(recipe), path_(recipe.out) {
  const std::string text = text_of(recipe);
  std::error_code failed;
  resumed_ = start == Start::kResume && fs::exists(path_ / "recipe.toml", failed);
  if (resumed_) {
    lock_.emplace(path_);
    check_same_recipe(path_, recipe);
  } else {
    make_result_directory(path_);
    lock_.emplace(path_);
  }
  if (fs::is_regular_file(recipe.data.prompts, failed)) prompts_sha256_ = sha256_of_file(recipe.data.prompts);
  write_file(path_ / "recipe.toml", text);
}

void RunDirectory::discard() {
  std::error_code ignored;
  files_.clear();
  events_.reset();
  fs::remove_all(path_, ignored);
}

void RunDirectory::append(const char* name, const std::string& line) {
  std::ofstream& file = files_[name];
  if (!file.is_open()) file.open(path_ / name, std::ios::app);
  file << line << '\n' << std::flush;
  if (!file) throw UserError("{}: cannot be written; is the disk full?", (path_ / name).string());
}

// A checkpoint on the disk without its step's lines could not be gone on from to the same files.
void RunDirectory::flush_lines() {
  for (const auto& [name, file] : files_) {
    const int descriptor = ::open((path_ / name).c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) continue;
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

void RunDirectory::metrics(const Json& step) {
  append("metrics.jsonl", step.dump());
  const auto number = step["step"].get<std::int64_t>();
  if (!events_) {
    events_ = std::make_unique<formats::TensorboardEvents>(path_);
    if (resumed_) events_->restart(number);
  }
  std::vector<std::pair<std::string, double>> scalars;
  add_scalars(step, "", scalars);
  std::vector<formats::TaggedValue> tagged;
  for (const auto& [name, value] : scalars)
    if (name != "step") tagged.push_back({name, value});
  events_->scalars(number, tagged);
}

void RunDirectory::rollout(const Json& response) {
  append("rollouts.jsonl", response.dump());
}

void RunDirectory::log(const std::string& line) {
  append("log.txt", time_text() + " " + line);
}

fs::path RunDirectory::checkpoint_path(std::int64_t step) const {
  return path_ / "checkpoints" / fmt::format("step_{}", step);
}

bool RunDirectory::has_checkpoint(std::int64_t step) const {
  return fs::exists(checkpoint_path(step));
}

// Steps of those that are there, ascending.
std::vector<std::int64_t> RunDirectory::checkpoints() const {
  std::vector<std::int64_t> steps;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(path_ / "checkpoints", missing)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kPrefix = "step_";
    std::int64_t step = 0;
    if (!name.starts_with(kPrefix)) continue;
    const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (error == std::errc() && end == name.data() + name.size()) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<fs::path> RunDirectory::rewind() {
  std::vector<std::int64_t> steps = checkpoints();
  std::string problems;
  std::vector<std::int64_t> damaged;
  while (!steps.empty()) {
    try {
      verify_checkpoint(checkpoint_path(steps.back()));
      break;
    } catch (const UserError& error) {
      problems += fmt::format("{}{}", problems.empty() ? "" : "; ", error.what());
      damaged.push_back(steps.back());
      steps.pop_back();
    }
  }
  if (steps.empty() && !damaged.empty())
    throw UserError("{}: no checkpoint verifies ({}); begin another run, or put a whole one back",
                    (path_ / "checkpoints").string(), problems);
  const std::int64_t step = steps.empty() ? 0 : steps.back();
  for (const std::int64_t later : damaged) {
    std::error_code failed;
    const fs::path aside = checkpoint_path(later).string() + ".damaged";
    fs::remove_all(aside, failed);
    fs::rename(checkpoint_path(later), aside, failed);
    log(fmt::format("checkpoint of step {} does not verify, and is now {}", later,
                    aside.filename().string()));
  }
  for (const char* name : kStepLines) keep_lines_until(path_ / name, step);
  if (steps.empty()) return std::nullopt;
  return checkpoint_path(step);
}

void RunDirectory::checkpoint(const RunState& state, const model::Model& student, const Learner& learner) {
  flush_lines();
  write_checkpoint(checkpoint_path(state.step), recipe_.student.path, state, student, learner,
                   prompts_sha256_);
  std::vector<std::int64_t> steps = checkpoints();
  std::error_code ignored;  // one that cannot be removed does no harm
  for (; recipe_.checkpoint.keep > 0 && std::ssize(steps) > recipe_.checkpoint.keep;
       steps.erase(steps.begin()))
    fs::remove_all(checkpoint_path(steps.front()), ignored);
}

}  // namespace routeopd::train
