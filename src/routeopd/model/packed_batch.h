// Sequences of different lengths one after another, without padding: everything but attention works on the T
// tokens as they are. Attention never crosses a sequence: it runs over groups of sequences of similar length,
// each group padded to its longest, so that a batch of very different lengths costs little more than its own
// tokens.
//
// Several continuations of one stem (the responses to a prompt) may share its tokens: all but attention is
// then computed once for the stem, forward and backward.
//
// Shapes: T tokens, S sequences, N states of a rollout; a group has B sequences of at most L tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/types/rollout.h"

namespace routeopd::model {

struct SequenceGroup {
  std::int64_t sequences = 0;   // B
  std::int64_t longest = 0;     // L
  at::Tensor token_of_slot_BL;  // int64, [B * L]: the packed token, or any token after a sequence's end
  at::Tensor slot_of_token;     // int64: the slot of each token that the group answers for
};

struct PackedBatch {
  at::Tensor ids_T;                     // int64
  at::Tensor positions_T;               // int64, from 0 in each sequence
  std::vector<std::int64_t> starts_S1;  // of pack()'s sequences
  std::vector<SequenceGroup> groups;
  at::Tensor
      place_in_groups_T;  // int64: each token's place among the tokens of all groups, one after another

  std::int64_t tokens() const { return ids_T.numel(); }
};

PackedBatch pack(std::span<const std::vector<std::int32_t>> sequences);

// A stem, which must not be empty, and what follows it. Every branch, an empty one too, sees the stem and
// itself.
struct SequenceTree {
  std::vector<std::int32_t> stem;
  std::vector<std::vector<std::int32_t>> branches;
};

// Each stem followed by its branches, in the order given. A tree without branches is a sequence.
PackedBatch pack_trees(std::span<const SequenceTree> trees);

// Responses of a rollout, each after its prompt, for the learner's forward over what was generated. A prompt
// is read once for those of its responses that follow one another.
struct ResponseBatch {
  PackedBatch packed;
  // int64: where each response state is in the batch; the state of token j is at the token before it.
  at::Tensor state_places;
  std::int64_t first_state = 0;
  std::int64_t end_state = 0;
};

// Responses [first, end), which must not be empty. The order of states is the rollout's.
ResponseBatch pack_responses(const Rollout& rollout, std::size_t first, std::size_t end);

// The batch with its tensors on a device; they cross in one copy. `batch` itself on the CPU.
ResponseBatch on_device(const ResponseBatch& batch, at::Device device);

// The largest end > first such that responses [first, end) have at most `tokens` tokens, a shared prompt
// counted once, or hold one response.
std::size_t portion_end(const Rollout& rollout, std::size_t first, std::size_t end, std::int64_t tokens);

// Causal attention inside each sequence, on the device of its arguments, by LibTorch's fused operator:
// causal without a mask, so that no [L, L] is made where the device has a fused kernel. q_TND has N query
// heads, k_TMD and v_TMD have M key-value heads, N a multiple of M, D the size of a head. Differentiable.
// Returns [T, N * D].
at::Tensor packed_attention(const PackedBatch& batch, const at::Tensor& q_TND, const at::Tensor& k_TMD,
                            const at::Tensor& v_TMD);

}  // namespace routeopd::model
