// A model directory as `generate` and `score` read it: the weights, and the tokenizer where there is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "routeopd/base/fields.h"
#include "routeopd/formats/model_contents.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/model/inference/packed_matrix.h"
#include "routeopd/model/model_files.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::app {

// The values of --weights.
inline const std::map<std::string, model::WeightStorage> kStorages = {
    {"exact", model::WeightStorage::kExact},
    {"float32", model::WeightStorage::kFloat32},
    {"bfloat16", model::WeightStorage::kBFloat16}};

struct LoadedModel {
  model::Model model;
  std::optional<tokenizer::Tokenizer> tokenizer;

  explicit LoadedModel(const std::string& directory) : model(model::load_model(directory)) {
    if (std::filesystem::exists(std::filesystem::path(directory) / "tokenizer.json"))
      tokenizer.emplace(directory);
  }

  const tokenizer::Tokenizer* words() const { return tokenizer ? &*tokenizer : nullptr; }

  // The tokenizer's ids; without one, every row of the embedding.
  std::int32_t real_ids() const {
    return tokenizer ? tokenizer->real_ids() : static_cast<std::int32_t>(model.config.vocab_size);
  }
};

// What decides the values that a model directory gives, by SHA-256.
inline Json contents_of(const std::filesystem::path& directory) {
  Json contents = formats::model_files_sha256(directory);
  contents["weights"] = formats::weights_sha256(directory);
  return contents;
}

}  // namespace routeopd::app
