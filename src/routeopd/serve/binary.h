// For distillation, binary and exact: safetensors in, safetensors out, the very bits that the local engine
// gives. docs/serve.md has the tensors and settings of each.
//
//   POST /v1/score     sequences in; at the states of each, top-k, log-partition, values at given ids
//   POST /v1/generate  prompts and the address of their random numbers in; responses with what was captured
//   POST /v1/gather    hidden states that generate or score gave, and ids; the logits at those ids
//   POST /v1/reload    {"path", "version"}: new weights of the same shape, between requests
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "routeopd/engine/request_queue.h"
#include "routeopd/serve/service.h"

namespace routeopd::serve {

struct BinaryOptions {
  engine::RequestQueue& queue;
  model::Model& model;                // whose weights a reload replaces: the engine's own
  std::filesystem::path reload_root;  // weights are taken from below it alone; empty: never
};

// The queue and the model must outlive the service.
void add_binary_routes(Service& service, const BinaryOptions& options);

}  // namespace routeopd::serve
