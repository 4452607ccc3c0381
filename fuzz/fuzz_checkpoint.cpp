// libFuzzer: any bytes as the files of a checkpoint (scratch.h, Scratch::lay). "$WEIGHTS" and "$MOMENTS"
// stand for what such a file holds when it is whole, and in the manifest "$B0" … "$B3" and "$S0" … "$S3"
// for bytes and SHA-256 of the files, so that what lies behind each check is reached. A checkpoint that is
// verified has the files that a run resumes from, and is of the step that was asked for.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"
#include "routeopd/model/model_files.h"
#include "routeopd/train/checkpoint.h"
#include "scratch.h"

namespace {

namespace model = routeopd::model;
namespace train = routeopd::train;
using routeopd::fuzz::require;

constexpr const char* kManifest = "state/manifest.json";
constexpr std::array kFiles = {"config.json", "state/state.json", "state/optimizer.safetensors",
                               "model.safetensors", kManifest};

const routeopd::Json kInputs = {{"student", "s"}};

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Resumed {
  const std::filesystem::path tiny = std::filesystem::path(ROUTEOPD_FUZZ_ROOT) / "tests/goldens/tiny";
  model::Model student = model::load_model(tiny / "student"), teacher = model::load_model(tiny / "teacher");
  train::Recipe recipe;
  train::Learner learner{student, teacher.head_VH, 90, recipe};
  std::string weights, moments;

  Resumed() {
    const routeopd::fuzz::Scratch whole("checkpoint-whole");
    const std::filesystem::path path = whole.path() / "step_3";
    train::write_checkpoint(path, routeopd::model::CarriedFiles(tiny / "student"), {.step = 3}, student,
                            learner, kInputs);
    weights = content_of(path / "model.safetensors");
    moments = content_of(path / "state/optimizer.safetensors");
  }
};

void fill_in(const routeopd::fuzz::Scratch& scratch) {
  const std::filesystem::path path = scratch.path() / kManifest;
  if (!std::filesystem::exists(path)) return;
  std::string text = content_of(path);
  for (std::size_t i = 0; i + 1 < kFiles.size(); ++i) {
    const std::filesystem::path other = scratch.path() / kFiles[i];
    if (!std::filesystem::exists(other)) continue;
    text = routeopd::fuzz::replaced(std::move(text), "$B" + std::to_string(i),
                                    std::to_string(std::filesystem::file_size(other)));
    text = routeopd::fuzz::replaced(std::move(text), "$S" + std::to_string(i),
                                    routeopd::sha256_of_file(other.string()));
  }
  scratch.write(kManifest, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const routeopd::fuzz::Scratch scratch("checkpoint");
  static Resumed* const resumed = new Resumed;  // torch's threads outlive static objects
  std::string input(routeopd::fuzz::text_of(data, size));
  input = routeopd::fuzz::replaced(std::move(input), "$WEIGHTS", resumed->weights);
  input = routeopd::fuzz::replaced(std::move(input), "$MOMENTS", resumed->moments);
  scratch.lay(input, kFiles);
  const std::filesystem::path& path = scratch.path();
  fill_in(scratch);
  try {
    train::verify_checkpoint(path, 3);
    for (std::size_t i = 0; i < 3; ++i) require(std::filesystem::exists(path / kFiles[i]));
  } catch (const routeopd::UserError&) {
  }
  try {
    const train::RunState state =
        train::restore_checkpoint(path, resumed->student, resumed->learner, kInputs);
    require(state.step >= 0 && state.bad_steps >= 0 && resumed->learner.scheduled() >= 0);
  } catch (const routeopd::UserError&) {
  }
  return 0;
}
