// The weights that a configuration asks for: what each is, its name in Hugging Face's files and its shape.
// Files, memory, optimizers and counts all follow this table, in its order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/formats/model_config.h"

namespace routeopd::formats {

enum class Weight {
  kEmbedding,
  // Of a layer.
  kNormBeforeAttention,
  kQuery,
  kQueryBias,
  kKey,
  kKeyBias,
  kValue,
  kValueBias,
  kOutput,
  kOutputBias,
  kQueryNorm,
  kKeyNorm,
  kNormAfterAttention,
  kNormBeforeMlp,
  kGate,
  kGateBias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kNormAfterMlp,
  // After the layers.
  kFinalNorm,
  kHead,
};

struct WeightRow {
  Weight weight = Weight::kEmbedding;
  std::int64_t layer = -1;  // -1: outside the layers
  std::string name;
  std::vector<std::int64_t> shape;  // [outputs, inputs] of a matrix

  std::int64_t elements() const;
};

// Every weight once: a tied head is not listed.
std::vector<WeightRow> weight_table(const ModelConfig& config);

// The name of an embedding or head, which a tied pair may be stored under.
std::string embedding_name(const ModelConfig& config);
std::string head_name(const ModelConfig& config);

std::int64_t parameter_count(const ModelConfig& config);

}  // namespace routeopd::formats
