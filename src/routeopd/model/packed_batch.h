// Sequences of different lengths behind one another, without padding: everything but attention works on the T
// tokens as they are. Attention never crosses a sequence: it runs over groups of sequences of similar length,
// each group padded to its longest, so that a batch of very different lengths costs little more than its own
// tokens.
//
// Several continuations of one stem (the responses to a prompt) may share its tokens: all but attention is
// then computed once for the stem, forward and backward.
//
// Shapes: T tokens, S sequences; a group has B sequences of at most L tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

namespace routeopd::model {

struct SequenceGroup {
  std::int64_t sequences = 0;   // B
  std::int64_t longest = 0;     // L
  at::Tensor token_of_slot_BL;  // int64, [B * L]: the packed token, or any token behind a sequence's end
  at::Tensor slot_of_token;     // int64: the slot of each token that the group answers for
};

struct PackedBatch {
  at::Tensor ids_T;                     // int64
  at::Tensor positions_T;               // int64, from 0 in each sequence
  std::vector<std::int64_t> starts_S1;  // of pack()'s sequences
  std::vector<SequenceGroup> groups;
  at::Tensor place_in_groups_T;  // int64: where a token stands among the groups' tokens behind one another

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

// Causal attention inside each sequence. q_TND has N query heads, k_TMD and v_TMD have M key-value heads, N a
// multiple of M. Differentiable. Returns [T, N * D].
at::Tensor packed_attention(const PackedBatch& batch, const at::Tensor& q_TND, const at::Tensor& k_TMD,
                            const at::Tensor& v_TMD);

}  // namespace routeopd::model
