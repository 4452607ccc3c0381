// What a run asks of its devices, in plain numbers: made from a recipe and configurations (run/workload.h),
// read by memory.h and stages.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/formats/model_config.h"

namespace routeopd::scale {

inline constexpr double kFloatBytes = 4;

struct ModelShape {
  double parameters = 0;  // all of them, a tied head once
  double body = 0;        // weights of the products of all blocks, read once a token
  double block = 0;       // parameters of one block
  double layers = 0, hidden = 0, query = 0, key = 0, vocabulary = 0;
  bool tied = false;
  double weight_bytes = 4;       // of a number, as its engine holds it
  double activation_floats = 0;  // that the backward needs of one block, a token

  double head() const { return hidden * vocabulary; }                  // weights of the LM head
  double tables() const { return tied ? head() : 2 * head(); }         // embedding and head
  double kv_bytes() const { return 2 * layers * key * weight_bytes; }  // of one position
  // Of the engine's copy, without the embedding that it looks rows up in.
  double engine_bytes() const { return weight_bytes * (parameters - (tied ? 0 : head())); }
};

// From a configuration alone. `activation_floats`: model::activation_floats() of the student.
ModelShape shape_of(const formats::ModelConfig& config, double weight_bytes, double activation_floats = 0);

// How the learner gets from hidden states to what its loss reads.
enum class Head { kPair, kGather, kDense };
const char* head_name(Head head);

struct Workload {
  ModelShape student;
  std::vector<ModelShape> teachers;  // each reads an equal part; empty for the sft arm
  bool writes_here = true;           // else rollouts are on servers, which are not planned
  bool scores_here = true;
  bool writes = true;  // false: the sft arm
  bool routes = true;

  double steps = 0, prompts = 0, responses_per_prompt = 0;  // prompts of one step
  double longest_response = 0, longest_prompt = 0;          // tokens
  double minibatches = 1, epochs = 1, micro_tokens = 0;
  double extra_forwards = 0;  // of the learner without gradients, over a step's data
  double rescored = 0;        // 1: the student's engine reads its responses again
  bool recompute = false;
  double compute_bytes = 4;  // of the learner's numbers
  double kv_bytes = 0;       // most for keys and values; 0: no bound

  Head head = Head::kPair;
  double head_rows = 4;  // of the LM head that the loss reads at a state, for kPair and kGather
  double pair_rows = 4;  // 2m
  double top_k = 32;
  double dense_chunk = 256;     // states whose logits a dense head holds at a time
  bool teacher_logits = false;  // the learner walks the teacher's vocabulary too

  double responses() const { return prompts * responses_per_prompt; }
  double updates() const { return minibatches * epochs; }  // of one step
};

// How the run lies on its devices: every device writes, scores and learns its share of the prompts.
struct Layout {
  std::int64_t gpus = 1;
  bool sharded = false;  // weights, gradients and moments of the learner, as FSDP does; else each has all
};

}  // namespace routeopd::scale
