// How much memory keys and values take: known before a run, and held under a limit.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "routeopd/engine/engine.h"
#include "routeopd/formats/model_config.h"
#include "routeopd/kernels/block_attention.h"

namespace routeopd::engine {

constexpr std::int64_t blocks_for(std::int64_t tokens) {
  return (tokens + kernels::kBlockPositions - 1) / kernels::kBlockPositions;
}

struct KvPlan {
  std::int64_t block_bytes = 0;
  std::int64_t blocks = 0;  // reserved: no more are ever in use

  std::int64_t bytes() const { return blocks * block_bytes; }
};

// `limit` bytes, 0: a quarter of the memory that is free, at least 64 MB. Throws UserError with the numbers when a prompt
// and one response to it can never fit.
KvPlan plan_kv(const formats::ModelConfig& config, std::span<const Prompt> prompts, const Sampling& sampling,
               std::int64_t limit, std::int64_t step_tokens);

}  // namespace routeopd::engine
