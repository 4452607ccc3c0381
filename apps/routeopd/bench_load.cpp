// Ratio L: a model of 270 MB from its directory, widened to float32, against reading the bytes of its file.
// Both find the file in the page cache; what is measured is how often the bytes are touched on their way.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "bench.h"
#include "routeopd/base/files.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/model/model_files.h"

namespace routeopd::app {
namespace {

namespace fs = std::filesystem;

// SmolLM2-135M's shape.
formats::ModelConfig small_model() {
  formats::ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = 49152;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.num_hidden_layers = 30;
  config.num_attention_heads = 9;
  config.num_key_value_heads = 3;
  config.head_dim = 64;
  config.max_position_embeddings = 8192;
  config.tie_word_embeddings = true;
  return config;
}

// All of a file into memory that nobody has touched before, as a reader without mmap would.
std::unique_ptr<char[]> bytes_of(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw UserError("{}: cannot be read", path.string());
  const std::size_t size = fs::file_size(path);
  std::unique_ptr<char[]> bytes(new char[size]);
  std::size_t done = 0;
  for (ssize_t got = 0; done < size; done += static_cast<std::size_t>(got)) {
    got = ::read(file, bytes.get() + done, size - done);
    if (got <= 0) break;
  }
  ::close(file);
  if (done < size) throw UserError("{}: reading failed", path.string());
  return bytes;
}

}  // namespace

void bench_load(Bench& bench) {
  if (!bench.wants("L")) return;
  bench.say("L: loading a model of 270 MB");
  const AtomicDirectory directory(fs::temp_directory_path() / fmt::format("routeopd-bench-{}", ::getpid()));
  const model::Model made = model::allocate_model(small_model());
  for (const model::Parameter& parameter : model::parameters(made)) {
    at::Tensor tensor = parameter.tensor;
    tensor.copy_(
        at::arange(tensor.numel(), at::kFloat).remainder(251).view(tensor.sizes()));  // exact in bfloat16
  }
  const fs::path origin = directory.path() / "origin", stored = directory.path() / "stored";
  fs::create_directory(origin);
  write_file(origin / "config.json", formats::json_of(made.config).dump());
  model::save_model(made, stored, origin, {.dtype = at::kBFloat16});

  double checksum = 0;
  const auto ours = [&] { checksum += model::load_model(stored).norm_H[0].item<double>(); };
  const auto read = [&] { checksum += bytes_of(stored / formats::kWeightsFile)[0]; };
  const model::Model again = model::load_model(stored);
  double difference = 0;
  const auto before = model::parameters(made), after = model::parameters(again);
  for (std::size_t i = 0; i < before.size(); ++i)
    difference = std::max(difference, (before[i].tensor - after[i].tensor).abs().max().item<double>());
  const std::string check = agreed("weights", difference, 0);
  const auto medians = interleaved_medians(bench.options().rounds, {ours, read});
  bench.add({.id = "L",
             .what = "loading a model, widened to float32 / reading its file",
             .shape = fmt::format("{:.0f} MB of BF16",
                                  static_cast<double>(fs::file_size(stored / formats::kWeightsFile)) / 1e6),
             .threads = bench.options().threads,
             .ours = medians[0],
             .other = medians[1],
             .target = 1.5,
             .check = check});
}

}  // namespace routeopd::app
