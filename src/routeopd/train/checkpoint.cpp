// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/checkpoint.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/base/hashes.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/model/model_files.h"

namespace routeopd::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "state/manifest.json";
constexpr const char* kState = "state/state.json";
constexpr const char* kOptimizer = "state/optimizer.safetensors";
constexpr std::int64_t kMostJsonBytes = 1 << 20;

// Every file under `directory` but the manifest, by its relative name, in order.
std::vector<std::string> files_under(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().lexically_relative(directory).generic_string();
    if (entry.is_regular_file() && name != kManifest) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Files are dealt to threads.
std::vector<std::string> hashes_of(const fs::path& directory, const std::vector<std::string>& names) {
  std::vector<std::string> hashes(names.size());
  at::parallel_for(0, std::ssize(names), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      hashes[i] = sha256_of_file(directory / names[i]);
  });
  return hashes;
}

Json manifest_of(const fs::path& directory) {
  const std::vector<std::string> names = files_under(directory);
  const std::vector<std::string> hashes = hashes_of(directory, names);
  Json files = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i)
    files[names[i]] = {{"bytes", fs::file_size(directory / names[i])}, {"sha256", hashes[i]}};
  return {{"files", files}};
}

void check_finite(const model::Model& student, std::int64_t step) {
  for (const model::Parameter& parameter : model::parameters(student)) {
    if (!parameter.tensor.isfinite().all().item<bool>())
      throw UserError("{} is not finite after step {}; the step was not saved, try a smaller [optimizer] lr",
                      parameter.name, step);
  }
}

std::int64_t counter(const Json& state, const char* name, const fs::path& path) {
  if (!state.contains(name) || !state[name].is_number_integer() || state[name].get<std::int64_t>() < 0)
    throw UserError("{}: expected a counter {}", (path / kState).string(), name);
  return state[name].get<std::int64_t>();
}

}  // namespace

void write_checkpoint(const fs::path& path, const model::CarriedFiles& like, const RunState& state,
                      const model::Model& student, const Learner& learner, const Json& inputs) {
  check_finite(student, state.step);
  // The directory of a run that was moved away is not made again: half of the run would lie there.
  if (const fs::path run = path.parent_path().parent_path(); !run.empty() && !fs::exists(run))
    throw UserError("{}: {}; was the run moved?", run.string(), std::strerror(ENOENT));
  AtomicDirectory target(path);
  model::write_model_files(student, target.path(), like);
  std::error_code failed;
  fs::create_directory(target.path() / "state", failed);
  if (failed)
    throw UserError("{}: cannot be made ({})", (target.path() / "state").string(), failed.message());
  model::save_tensors(target.path() / kOptimizer, learner.optimizer().state());
  const Json counters = {{"step", state.step},
                         {"bad_steps", state.bad_steps},
                         {"updates", learner.optimizer().updates()},
                         {"scheduled", learner.scheduled()},
                         {"inputs", inputs}};
  write_file(target.path() / kState, counters.dump(2) + "\n");
  write_file(target.path() / kManifest, manifest_of(target.path()).dump(2) + "\n");
  target.commit();
}

void verify_checkpoint(const fs::path& path, std::int64_t step) {
  const Json manifest = formats::read_json_object(path / kManifest, kMostJsonBytes);
  formats::naming((path / kManifest).string(), [&] { formats::refuse_zero_bytes(manifest); });
  if (!manifest.contains("files") || !manifest["files"].is_object())
    throw UserError("{}: expected {{\"files\": ...}}", (path / kManifest).string());
  std::vector<std::string> names;
  for (const auto& [name, entry] : manifest["files"].items()) {
    const fs::path relative(name);
    if (relative.is_absolute() || std::find(relative.begin(), relative.end(), "..") != relative.end())
      throw UserError("{}: {} lies outside the checkpoint", (path / kManifest).string(), name);
    if (!entry.is_object() || !entry.contains("bytes") || !entry.contains("sha256"))
      throw UserError("{}: expected bytes and sha256 of {}", (path / kManifest).string(), name);
    std::error_code failed;
    const std::uintmax_t bytes = fs::file_size(path / relative, failed);
    if (failed) throw UserError("{}: is missing", (path / relative).string());
    if (entry["bytes"] != bytes)
      throw UserError("{}: has {} bytes; the manifest says {}", (path / relative).string(), bytes,
                      entry["bytes"].dump());
    names.push_back(name);
  }
  for (const char* needed : {"config.json", kState, kOptimizer})
    if (std::find(names.begin(), names.end(), needed) == names.end())
      throw UserError("{}: {} is not in it", (path / kManifest).string(), needed);
  const std::vector<std::string> hashes = hashes_of(path, names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (manifest["files"][names[i]]["sha256"] != hashes[i])
      throw UserError("{}: its SHA-256 is not the manifest's", (path / names[i]).string());
  }
  const Json state = formats::read_json_object(path / kState, kMostJsonBytes);
  if (counter(state, "step", path) != step)
    throw UserError("{}: is of step {}; was it copied here?", (path / kState).string(), state["step"].dump());
}

RunState restore_checkpoint(const fs::path& path, model::Model& student, Learner& learner,
                            const Json& inputs) {
  const Json state = formats::read_json_object(path / kState, kMostJsonBytes);
  const Json stored = state.value("inputs", Json::object());
  for (const auto& [name, hash] : inputs.items()) {
    if (!stored.is_object() || stored.value(name, Json()) != hash)
      throw UserError(
          "{}: was made with other {} than the recipe names now; resume with what the run began with",
          path.string(), name);
  }
  model::copy_weights(model::load_model(path), student);
  model::read_tensors(path / kOptimizer, learner.optimizer().state());
  learner.resume(counter(state, "scheduled", path), counter(state, "updates", path));
  return {.step = counter(state, "step", path), .bad_steps = counter(state, "bad_steps", path)};
}

}  // namespace routeopd::train
