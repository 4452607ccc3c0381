// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/run_directory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "routeopd/base/die_at_write.h"
#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/base/hashes.h"
#include "routeopd/formats/model_contents.h"
#include "routeopd/formats/weight_files.h"

namespace routeopd::train {

namespace fs = std::filesystem;

namespace {

// Files with one or more lines per step, each with its `step`, ascending.
constexpr std::array kStepLines = {"metrics.jsonl", "rollouts.jsonl", "probe.jsonl"};

// Fields that may change when a run is resumed: nothing that was computed depends on them. `steps` is the
// usual reason to resume. Another device rounds differently, so such a run is not that of one device bit for
// bit; the state that it continues from is the same, and the log says where each part ran.
constexpr std::array kMayChange = {"out",
                                   "student.device",
                                   "train.steps",
                                   "train.rollouts",
                                   "train.max_bad_steps",
                                   "train.diagnostics",
                                   "eval.every",
                                   "eval.suites",
                                   "eval.n",
                                   "eval.temperature",
                                   "eval.top_p",
                                   "eval.max_new_tokens",
                                   "checkpoint.every",
                                   "checkpoint.keep",
                                   "probe.every",
                                   "probe.bank",
                                   "rollout.kv_memory",
                                   "rollout.urls",
                                   "rollout.api_key_env",
                                   "rollout.patience",
                                   "rollout.requests",
                                   "rollout.request_seconds",
                                   "rollout.weights",
                                   "teacher.urls",
                                   "teacher.api_key_env",
                                   "teacher.patience",
                                   "teacher.requests",
                                   "teacher.request_seconds"};

std::string text_of(const Recipe& recipe) {
  try {
    return recipe_text(recipe);
  } catch (const Json::exception&) {
    throw UserError("recipe: a text in it is not UTF-8; are the paths right?");
  }
}

// teachers.NAME.key as teacher.key, any other name as it is: what may change of one teacher may of all.
std::string field_of_any_teacher(const std::string& name) {
  constexpr std::string_view kOfATeacher = "teachers.";
  const std::size_t key = name.rfind('.');
  if (!name.starts_with(kOfATeacher) || key < kOfATeacher.size()) return name;
  return "teacher" + name.substr(key);
}

void check_same_recipe(const fs::path& path, const Recipe& recipe) {
  for (const std::string& name : differences(read_recipe((path / "recipe.toml").string()), recipe)) {
    if (std::find(kMayChange.begin(), kMayChange.end(), field_of_any_teacher(name)) == kMayChange.end())
      throw UserError(
          "{}: {} differs from the recipe that the run began with ({}); use the same value, or begin another "
          "run",
          path.string(), name, (path / "recipe.toml").string());
  }
}

// Whether there is a run to go on with.
bool resumes(const Recipe& recipe, Start start) {
  std::error_code failed;
  if (start == Start::kNew || !fs::exists(fs::path(recipe.out) / "recipe.toml", failed)) return false;
  if (recipe.data.prompts == "-")
    throw UserError("[data] prompts: a run that reads them from a stream cannot be resumed; name a file");
  return true;
}

// The part of a file that a run resumed after `step` steps keeps: up to the first line of a later step, or to
// a last line that was not finished.
struct KeptLines {
  std::uintmax_t bytes = 0;
  std::int64_t lines = 0;
  std::set<std::int64_t> steps;
  Json last = Json::object();
};

// "2, 5 to 7": the steps up to `last` that are not among `steps`.
std::string missing_steps(const std::set<std::int64_t>& steps, std::int64_t last) {
  std::string text;
  for (std::int64_t step = 1; step <= last; ++step) {
    if (steps.contains(step)) continue;
    std::int64_t end = step;
    while (end < last && !steps.contains(end + 1)) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", step);
    if (end > step) text += fmt::format(" to {}", end);
    step = end;
  }
  return text;
}

KeptLines lines_until(const fs::path& path, std::int64_t step) {
  std::ifstream file(path, std::ios::binary);
  KeptLines kept;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object() || !parsed.contains("step") || !parsed["step"].is_number_unsigned())
      throw UserError("{}: line {} has no step; mend or remove it, nothing was changed", path.string(),
                      kept.lines + 1);
    if (parsed["step"].get<std::uint64_t>() > static_cast<std::uint64_t>(step)) break;
    kept.bytes += line.size() + 1;
    ++kept.lines;
    kept.steps.insert(parsed["step"].get<std::int64_t>());
    kept.last = std::move(parsed);
  }
  if (file.bad()) throw UserError("{}: reading failed; nothing was changed", path.string());
  return kept;
}

// N of every entry step_N, ascending.
std::vector<std::int64_t> steps_in(const fs::path& directory) {
  std::vector<std::int64_t> steps;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory, missing)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kPrefix = "step_";
    std::int64_t step = 0;
    if (!name.starts_with(kPrefix)) continue;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (step > 0 && name == fmt::format("step_{}", step)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string time_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text = {};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), length};
}

}  // namespace

std::vector<RolloutLine> rollout_lines(const Recipe& recipe, std::int64_t step, const Rollout& rollout,
                                       const std::vector<Prompt>& prompts,
                                       const tokenizer::Tokenizer* tokenizer) {
  std::vector<RolloutLine> lines;
  for (const Response& response : rollout.responses_B) {
    const auto first = rollout.id_N.begin() + response.first_state;
    const std::vector<std::int32_t> ids(first, first + response.length);
    const Prompt& prompt = prompts[static_cast<std::size_t>(response.prompt)];
    Json line = {{"step", step},
                 {"id", prompt.id},
                 {"sample", response.sample},
                 {"ids", ids},
                 {"finish", response.finish == Finish::kStop ? "stop" : "length"}};
    if (tokenizer != nullptr) line["text"] = tokenizer->decode(ids, /*skip_special=*/true);
    if (!recipe.teachers.empty() && !recipe.sft())
      line["teacher"] = recipe.run_teachers()[static_cast<std::size_t>(prompt.teacher)].name;
    if (!prompt.teacher_ids.empty()) {
      line["teacher_prompt_ids"] = prompt.teacher_ids;
      if (tokenizer != nullptr)
        line["teacher_prompt"] =
            prompt.teacher_text.empty() ? tokenizer->decode(prompt.teacher_ids) : prompt.teacher_text;
    }
    lines.push_back({prompt.number, response.sample, line.dump()});
  }
  return lines;
}

std::vector<RolloutLine> gathered_lines(ranks::Group& group, const std::vector<RolloutLine>& own) {
  Json said = Json::array();
  for (const RolloutLine& line : own) said.push_back({line.prompt, line.sample, line.text});
  std::vector<RolloutLine> all;
  for (const std::string& words : group.gather(said.dump()))
    for (const Json& line : Json::parse(words))
      all.push_back({line[0].get<std::uint32_t>(), line[1].get<std::int32_t>(), line[2].get<std::string>()});
  std::sort(all.begin(), all.end(), [](const RolloutLine& a, const RolloutLine& b) {
    return std::tie(a.prompt, a.sample) < std::tie(b.prompt, b.sample);
  });
  return all;
}

void RunDirectory::check_place(const Recipe& recipe, Start start) {
  if (!resumes(recipe, start)) {
    check_result_directory(recipe.out);
    return;
  }
  const DirectoryLock lock(recipe.out);
  check_same_recipe(recipe.out, recipe);
}

RunDirectory::RunDirectory(const Recipe& recipe, Start start)
    : recipe_(recipe),
      path_(recipe.out),
      gaps_(start == Start::kResumeWithGaps),
      student_files_(recipe.student.path) {
  const std::string text = text_of(recipe);
  std::error_code failed;
  resumed_ = resumes(recipe, start);
  if (resumed_) {
    lock_.emplace(path_);
    check_same_recipe(path_, recipe);
  } else {
    made_ = !fs::exists(path_, failed);
    make_result_directory(path_);
    lock_.emplace(path_);
  }
  std::error_code missing;
  inputs_["prompts"] =
      fs::is_regular_file(recipe.data.prompts, missing) ? sha256_of_file(recipe.data.prompts) : "";
  for (const RunTeacher& teacher : recipe.run_teachers()) {
    if (teacher.section->engine != EngineKind::kLocal) continue;
    const std::string& directory = teacher.section->path;
    inputs_[teacher.section_name() + " weights"] = formats::weights_sha256(directory);
    inputs_[teacher.section_name() + " configuration or tokenizer"] =
        sha256(formats::model_files_sha256(directory).dump());
  }
  if (!resumed_) write_file(path_ / "recipe.toml", text);
}

// The directory was empty: everything in it is the run's.
void RunDirectory::discard() {
  std::error_code ignored;
  files_.clear();
  events_.reset();
  for (const auto& entry : fs::directory_iterator(path_, ignored)) fs::remove_all(entry.path(), ignored);
  if (made_) fs::remove(path_, ignored);
}

void RunDirectory::append(const char* name, const std::string& line) {
  std::ofstream& file = files_[name];
  if (!file.is_open()) file.open(path_ / name, std::ios::app);
  before_write([&] { file << line.substr(0, line.size() / 2) << std::flush; });
  file << line << '\n' << std::flush;
  if (!file) throw UserError("{}: cannot be written; is the disk full?", (path_ / name).string());
}

// The lines of a step must be on the disk before its checkpoint: the resumed run would miss them.
void RunDirectory::flush_lines() {
  for (const auto& [name, file] : files_) {
    before_write();
    flush_to_disk(path_ / name);
  }
}

void RunDirectory::metrics(const StepMetrics& metrics) {
  append("metrics.jsonl", json_of(metrics).dump());
  if (!events_) {
    events_ = std::make_unique<formats::TensorboardEvents>(path_);
    if (resumed_) events_->restart(metrics.step);
  }
  const auto scalars = scalars_of(metrics);
  std::vector<formats::TaggedValue> tagged;
  for (const auto& [name, value] : scalars) tagged.push_back({name, value});
  events_->scalars(metrics.step, tagged);
}

void RunDirectory::rollouts(const std::vector<RolloutLine>& lines) {
  for (const RolloutLine& line : lines) append("rollouts.jsonl", line.text);
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

std::vector<std::int64_t> RunDirectory::checkpoints() const {
  return steps_in(path_ / "checkpoints");
}

std::optional<fs::path> RunDirectory::newest_checkpoint() {
  std::vector<std::int64_t> steps = checkpoints();
  std::string problems;
  damaged_.clear();
  while (!steps.empty()) {
    try {
      verify_checkpoint(checkpoint_path(steps.back()), steps.back());
      break;
    } catch (const UserError& error) {
      problems += fmt::format("{}{}", problems.empty() ? "" : "; ", error.what());
      damaged_.push_back(steps.back());
      steps.pop_back();
    }
  }
  if (steps.empty() && !damaged_.empty())
    throw UserError("{}: no checkpoint verifies ({}); begin another run, or restore a whole one",
                    (path_ / "checkpoints").string(), problems);
  if (steps.empty()) return std::nullopt;
  if (steps.back() > recipe_.train.steps)
    throw UserError("{}: {} steps are done, and [train] steps is {}; nothing was changed", path_.string(),
                    steps.back(), recipe_.train.steps);
  const std::string other = student_files_.difference(model::CarriedFiles(checkpoint_path(steps.back())));
  if (!other.empty())
    throw UserError(
        "{}: its {} is not the one that {} has now; resume with the student that the run began with",
        checkpoint_path(steps.back()).string(), other, recipe_.student.path);
  return checkpoint_path(steps.back());
}

void RunDirectory::rewind(std::int64_t step) {
  std::map<std::string, KeptLines> kept;
  for (const char* name : kStepLines)
    if (fs::exists(path_ / name)) kept[name] = lines_until(path_ / name, step);
  const std::string missing = missing_steps(kept["metrics.jsonl"].steps, step);
  if (!missing.empty() && !gaps_)
    throw UserError(
        "{}: the lines of steps {} are missing, of the {} that are done; restore the file, or go on without "
        "them by `routeopd train {} --resume --allow-gaps` (a run of a study: or remove its directory, and "
        "the study makes it again); nothing was changed",
        (path_ / "metrics.jsonl").string(), missing, step, (path_ / "recipe.toml").string());
  last_metrics_ = step_metrics_of(kept["metrics.jsonl"].last);
  last_metrics_.step = step;

  std::error_code failed;
  for (const std::int64_t later : damaged_) {
    const fs::path aside = checkpoint_path(later).string() + ".damaged";
    if (fs::exists(aside)) remove_whole(aside);
    rename_file(checkpoint_path(later), aside);
    log(fmt::format("checkpoint of step {} does not verify, and is now {}", later,
                    aside.filename().string()));
  }
  for (const char* folder : {"", "checkpoints", "eval"}) remove_abandoned(path_ / folder);
  for (const std::int64_t later : steps_in(path_ / "eval"))
    if (later > step) remove_whole(path_ / "eval" / fmt::format("step_{}", later));
  for (const auto& [name, part] : kept) {
    failed.clear();
    before_write();
    if (fs::exists(path_ / name)) fs::resize_file(path_ / name, part.bytes, failed);
    if (failed)
      throw UserError("{}: cannot be cut to step {} ({})", (path_ / name).string(), step, failed.message());
  }
  if (!missing.empty()) log(fmt::format("metrics.jsonl lacks the lines of steps {}", missing));
  write_file(path_ / "recipe.toml", text_of(recipe_));
}

void RunDirectory::checkpoint(const RunState& state, const model::Model& student, const Learner& learner) {
  flush_lines();
  write_checkpoint(checkpoint_path(state.step), student_files_, state, student, learner, inputs_);
  std::vector<std::int64_t> steps = checkpoints();
  for (; recipe_.checkpoint.keep > 0 && std::ssize(steps) > recipe_.checkpoint.keep;
       steps.erase(steps.begin()))
    remove_whole(checkpoint_path(steps.front()));
}

}  // namespace routeopd::train
