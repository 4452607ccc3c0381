// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/weight_files.h"

#include <algorithm>
#include <system_error>

#include "routeopd/base/files.h"
#include "routeopd/base/hashes.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxIndex = 256 << 20;
constexpr std::size_t kMaxShards = 4096;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A name from outside: it must stay in the directory.
void check_shard_name(const std::string& name) {
  const bool control = std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20; });
  if (name.empty() || control || fs::path(name).filename() != name || !name.ends_with(".safetensors"))
    throw UserError("expected the name of a .safetensors file in the same directory, got {}", name);
}

[[noreturn]] void refuse_empty(const fs::path& directory) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"}) {
    if (is_there(directory / name))
      throw UserError(
          "{}: expected {}, got {}, a pickle, which can run code and is never opened; try "
          "save_pretrained(safe_serialization=True)",
          directory.string(), kWeightsFile, name);
  }
  throw UserError("{}: expected {} or {}, got neither; is it a Hugging Face model directory?",
                  directory.string(), kWeightsFile, kWeightsIndex);
}

}  // namespace

WeightFiles::WeightFiles(const fs::path& directory) {
  if (is_there(directory / kWeightsFile)) {
    files_.push_back(std::make_unique<Safetensors>(directory / kWeightsFile));
    for (const TensorView& tensor : files_.front()->tensors())
      tensors_.emplace(tensor.name, Entry{&tensor, &files_.front()->path()});
  } else if (is_there(directory / kWeightsIndex)) {
    open_shards(directory);
  } else {
    refuse_empty(directory);
  }
}

void WeightFiles::open_shards(const fs::path& directory) {
  const fs::path index_path = directory / kWeightsIndex;
  const Json index = read_json_object(index_path, kMaxIndex);
  naming(index_path.string(), [&] {
    const Json& map = value_or_null(index, "weight_map");
    if (!map.is_object()) throw UserError("weight_map: expected an object, got {}", map.type_name());
    std::map<std::string, std::vector<std::string>> tensors_of_file;
    for (const auto& entry : map.items()) {
      const Json& file = entry.value();
      naming(entry.key(), [&] {
        if (!file.is_string()) throw UserError("expected the name of a file, got {}", file.type_name());
        check_shard_name(file.get_ref<const std::string&>());
      });
      tensors_of_file[file.get<std::string>()].push_back(entry.key());
    }
    if (tensors_of_file.size() > kMaxShards)
      throw UserError("weight_map: expected at most {} files, got {}", kMaxShards, tensors_of_file.size());
    for (const auto& [file, names] : tensors_of_file) {
      if (!is_there(directory / file))
        throw UserError("{}: expected this shard beside the index, got none; is the download complete?",
                        file);
      const Safetensors& shard = *files_.emplace_back(std::make_unique<Safetensors>(directory / file));
      for (const TensorView& tensor : shard.tensors()) {
        const auto said = map.find(tensor.name);
        if (said == map.end() || *said != file)
          throw UserError("{}: expected the index to name this file for {}, got {}", file, tensor.name,
                          said == map.end() ? "nothing" : shown(*said));
        tensors_.emplace(tensor.name, Entry{&tensor, &shard.path()});
      }
      for (const std::string& name : names) {
        if (!tensors_.contains(name))
          throw UserError("{}: expected tensor {} in it, as the index says, got none", file, name);
      }
    }
  });
}

WeightFiles::Entry WeightFiles::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? Entry() : found->second;
}

std::string weights_sha256(const fs::path& directory) {
  std::error_code missing;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory, missing))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string hashes;
  for (const fs::path& file : files) {
    check_interrupt();
    hashes += sha256_of_file(file);
  }
  return files.size() > 1 ? sha256(hashes) : hashes;
}

void write_weights(const fs::path& directory, const std::vector<TensorView>& tensors,
                   std::int64_t shard_bytes) {
  std::vector<std::vector<TensorView>> shards(1);
  std::int64_t total = 0, in_shard = 0;
  for (const TensorView& tensor : tensors) {
    const auto bytes = static_cast<std::int64_t>(tensor.bytes.size());
    if (!shards.back().empty() && in_shard + bytes > shard_bytes) {
      shards.emplace_back();
      in_shard = 0;
    }
    shards.back().push_back(tensor);
    in_shard += bytes;
    total += bytes;
  }
  if (shards.size() == 1) {
    write_safetensors(directory / kWeightsFile, tensors);
    return;
  }
  Json map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_safetensors(directory / name, shards[i]);
    for (const TensorView& tensor : shards[i]) map[tensor.name] = name;
  }
  write_file(directory / kWeightsIndex,
             Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n");
}

}  // namespace routeopd::formats
