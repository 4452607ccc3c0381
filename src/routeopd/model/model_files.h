// Model directories as Hugging Face has them: config.json, weights in safetensors, tokenizer files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "routeopd/model/carried_files.h"
#include "routeopd/model/model.h"

namespace routeopd::model {

// Reads config.json and the weights (model.safetensors, or shards and their index), widened to float32.
// Throws UserError with the file and the tensor that is missing, unexpected or of a wrong shape, and
// Interrupted when a signal comes meanwhile.
Model load_model(const std::filesystem::path& directory);

// What the weight files of a directory hold; their headers are read, their tensors are not.
struct StoredWeights {
  std::int64_t parameters = 0;                // a tied pair counts once
  std::int64_t bytes = 0;                     // of the tensors
  std::map<std::string, std::int64_t> types;  // parameters of each type, as the format spells it
  std::vector<std::filesystem::path> files;
};

// Throws as load_model does.
StoredWeights describe_weights(const std::filesystem::path& directory);

struct SaveOptions {
  at::ScalarType dtype = at::kFloat;  // kFloat | kBFloat16 | kHalf, rounded to nearest
  // Larger weights are cut into several files with an index.
  std::int64_t shard_bytes = 50LL * 1000 * 1000 * 1000;
  // A head that is tied to the embedding is written under its own name, too: for servers that were told that
  // it is not tied. config.json says nothing of it.
  bool own_head = false;
};

// Writes a directory that `transformers` loads: config.json (its dtype as said here), tokenizer files and
// templates of `like`, the weights in safetensors. Written beside and renamed; `directory` must not exist.
void save_model(const Model& model, const std::filesystem::path& directory, const CarriedFiles& like,
                const SaveOptions& options = {});
// `like` is a directory, read at once.
void save_model(const Model& model, const std::filesystem::path& directory, const std::filesystem::path& like,
                const SaveOptions& options = {});

// The same files into a directory that exists.
void write_model_files(const Model& model, const std::filesystem::path& directory, const CarriedFiles& like,
                       const SaveOptions& options = {});

// A safetensors file of tensors of one type, in the order given.
void save_tensors(const std::filesystem::path& path, const std::vector<Parameter>& tensors,
                  at::ScalarType dtype = at::kFloat);

// Reads such a file into tensors of those names, shapes and float32. Throws UserError where it does not hold
// exactly these.
void read_tensors(const std::filesystem::path& path, const std::vector<Parameter>& targets);

}  // namespace routeopd::model
