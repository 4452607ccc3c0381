// A model directory as `generate` and `score` read it: the weights, and the tokenizer where there is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "routeopd/model/model_files.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::app {

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

}  // namespace routeopd::app
