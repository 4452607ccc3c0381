// The weights of a model directory: model.safetensors, or shards named by model.safetensors.index.json
// {"metadata": {"total_size"}, "weight_map": {tensor: file}}. The index and the shards must agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "routeopd/formats/safetensors.h"

namespace routeopd::formats {

inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kWeightsIndex = "model.safetensors.index.json";

class WeightFiles {
 public:
  // A tensor and the file that holds it.
  struct Entry {
    const TensorView* tensor = nullptr;
    const std::filesystem::path* file = nullptr;
  };

  // Opens all of them. Throws UserError for a directory without weights in safetensors, a shard that is not
  // there, and tensors that the index and the shards do not agree on.
  explicit WeightFiles(const std::filesystem::path& directory);

  const std::map<std::string, Entry>& tensors() const { return tensors_; }
  const std::vector<std::unique_ptr<Safetensors>>& files() const { return files_; }

  // `tensor` is null where there is none of that name.
  Entry find(const std::string& name) const;

 private:
  void open_shards(const std::filesystem::path& directory);

  std::vector<std::unique_ptr<Safetensors>> files_;
  std::map<std::string, Entry> tensors_;
};

// One hash for all .safetensors files of a directory: SHA-256 of the only one, or of the concatenated hashes
// (in hexadecimal) of several, in the order of their names; empty where there are none. Throws Interrupted
// between files.
std::string weights_sha256(const std::filesystem::path& directory);

// Writes the tensors into model.safetensors, or, when they exceed `shard_bytes`, into shards of at most that
// (or of one tensor, where a single one is larger) with an index.
void write_weights(const std::filesystem::path& directory, const std::vector<TensorView>& tensors,
                   std::int64_t shard_bytes);

}  // namespace routeopd::formats
