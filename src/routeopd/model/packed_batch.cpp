//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/packed_batch.h"

#include <algorithm>
#include <numeric>

#include "routeopd/base/error.h"

namespace routeopd::model {
namespace {

// A sequence shorter than this share of its group's longest starts a group of its own, unless the group is so short
// that one more call costs more than the padding.
constexpr double kShortest = 0.7;
constexpr std::int64_t kSmallLength = 64;

at::Tensor long_tensor(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong);
}

// Appends the packed places of the group's tokens to `tokens`.
SequenceGroup group_of(std::span<const std::int64_t> members, const std::vector<std::int64_t>& starts,
                       std::vector<std::int64_t>& tokens) {
  const auto length = [&](std::int64_t s) {
    return starts[static_cast<std::size_t>(s) + 1] - starts[static_cast<std::size_t>(s)];
  };
  SequenceGroup group;
  group.sequences = std::ssize(members);
  group.longest = length(members.front());
  std::vector<std::int64_t> token_of_slot, slot_of_token;
  for (std::int64_t row = 0; row < group.sequences; ++row) {
    const std::int64_t sequence = members[static_cast<std::size_t>(row)];
    const std::int64_t start = starts[static_cast<std::size_t>(sequence)];
    for (std::int64_t j = 0; j < group.longest; ++j) {
      // Behind the end the sequence's last token stands in. Causal attention shows these slots to each other alone, and
      // nobody reads them: no value and no gradient comes back from there.
      token_of_slot.push_back(start + std::min(j, length(sequence) - 1));
      if (j >= length(sequence)) continue;
      slot_of_token.push_back(row * group.longest + j);
      tokens.push_back(start + j);
    }
  }
  group.token_of_slot_BL = long_tensor(token_of_slot);
  group.slot_of_token = long_tensor(slot_of_token);
  return group;
}

}  // namespace

PackedBatch pack(std::span<const std::vector<std::int32_t>> sequences) {
  PackedBatch batch;
  std::vector<std::int64_t> ids, positions;
  batch.starts_S1.push_back(0);
  for (const auto& sequence : sequences) {
    ROUTEOPD_INVARIANT(!sequence.empty());
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    for (std::size_t j = 0; j < sequence.size(); ++j) positions.push_back(static_cast<std::int64_t>(j));
    batch.starts_S1.push_back(std::ssize(ids));
  }
  batch.ids_T = long_tensor(ids);
  batch.positions_T = long_tensor(positions);

  std::vector<std::int64_t> order(sequences.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto length = [&](std::int64_t s) { return std::ssize(sequences[static_cast<std::size_t>(s)]); };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return length(a) > length(b); });
  std::vector<std::int64_t> tokens;  // in the order of the groups
  for (std::size_t first = 0; first < order.size();) {
    const std::int64_t longest = length(order[first]);
    const double least = longest <= kSmallLength ? 0 : kShortest * static_cast<double>(longest);
    std::size_t end = first + 1;
    while (end < order.size() && static_cast<double>(length(order[end])) >= least) ++end;
    batch.groups.push_back(group_of(std::span(order).subspan(first, end - first), batch.starts_S1, tokens));
    first = end;
  }
  batch.place_in_groups_T = long_tensor(tokens).argsort();
  return batch;
}

at::Tensor packed_attention(const PackedBatch& batch, const at::Tensor& q_TND, const at::Tensor& k_TMD,
                            const at::Tensor& v_TMD) {
  const std::int64_t n = q_TND.size(1), m = k_TMD.size(1), d = q_TND.size(2);
  const auto padded = [&](const at::Tensor& x, const SequenceGroup& group) {
    at::Tensor rows =
        x.index_select(0, group.token_of_slot_BL).view({group.sequences, group.longest, x.size(1), d});
    if (x.size(1) != n) {  // every key-value head serves n / m query heads
      rows =
          rows.unsqueeze(3).expand({-1, -1, -1, n / m, -1}).reshape({group.sequences, group.longest, n, d});
    }
    return rows.transpose(1, 2);
  };
  std::vector<at::Tensor> outputs;
  for (const SequenceGroup& group : batch.groups) {
    const at::Tensor out_BNLD = at::scaled_dot_product_attention(padded(q_TND, group), padded(k_TMD, group),
                                                                 padded(v_TMD, group), {}, 0.0,
                                                                 /*is_causal=*/true);
    outputs.push_back(out_BNLD.transpose(1, 2).reshape({-1, n * d}).index_select(0, group.slot_of_token));
  }
  return at::cat(outputs).index_select(0, batch.place_in_groups_T);
}

}  // namespace routeopd::model
