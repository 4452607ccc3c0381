// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/packed_batch.h"

#include <algorithm>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd::model {
namespace {

// A sequence shorter than this share of its group's longest starts a new group, unless the group is so short
// that one more call costs more than the padding.
constexpr double kShortest = 0.7;
constexpr std::int64_t kSmallLength = 64;

at::Tensor long_tensor(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong);
}

// What one row of attention sees: a stem, which several may share, and what follows it, as packed places.
struct Row {
  std::int64_t stem_start = 0, stem_length = 0;
  std::int64_t start = 0, length = 0;
  bool answers_for_stem = true;  // one row of each stem does

  std::int64_t total() const { return stem_length + length; }
  std::int64_t place(std::int64_t j) const {
    return j < stem_length ? stem_start + j : start + j - stem_length;
  }
};

// Appends the places that the group answers for to `tokens`.
SequenceGroup group_of(std::span<const Row> rows, std::vector<std::int64_t>& tokens) {
  SequenceGroup group;
  group.sequences = std::ssize(rows);
  group.longest = rows.front().total();
  std::vector<std::int64_t> token_of_slot, slot_of_token;
  for (std::int64_t r = 0; r < group.sequences; ++r) {
    const Row& row = rows[static_cast<std::size_t>(r)];
    for (std::int64_t j = 0; j < group.longest; ++j) {
      // After a sequence's end its last token fills the slots. Causal attention shows these slots to each
      // other alone, and nobody reads them: no value and no gradient comes back from there.
      token_of_slot.push_back(row.place(std::min(j, row.total() - 1)));
      if (j >= row.total() || (j < row.stem_length && !row.answers_for_stem)) continue;
      slot_of_token.push_back(r * group.longest + j);
      tokens.push_back(row.place(j));
    }
  }
  group.token_of_slot_BL = long_tensor(token_of_slot);
  group.slot_of_token = long_tensor(slot_of_token);
  return group;
}

void add_groups(PackedBatch& batch, std::vector<Row> rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.total() > b.total(); });
  std::vector<std::int64_t> tokens;  // in the order of the groups
  for (std::size_t first = 0; first < rows.size();) {
    const std::int64_t longest = rows[first].total();
    const double least = longest <= kSmallLength ? 0 : kShortest * static_cast<double>(longest);
    std::size_t end = first + 1;
    while (end < rows.size() && static_cast<double>(rows[end].total()) >= least) ++end;
    batch.groups.push_back(group_of(std::span(rows).subspan(first, end - first), tokens));
    first = end;
  }
  batch.place_in_groups_T = long_tensor(tokens).argsort();
}

const std::vector<std::int32_t>& prompt_of(const Rollout& rollout, const Response& response) {
  return rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)];
}

// Nothing is predicted from a response's last token, so it is not read.
std::int64_t tokens_read(const Response& response) {
  return response.length - 1;
}

}  // namespace

PackedBatch pack_trees(std::span<const SequenceTree> trees) {
  PackedBatch batch;
  std::vector<std::int64_t> ids, positions;
  const auto append = [&](const std::vector<std::int32_t>& tokens, std::int64_t position) {
    const std::int64_t start = std::ssize(ids);
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    for (std::size_t j = 0; j < tokens.size(); ++j) positions.push_back(position++);
    return start;
  };
  std::vector<Row> rows;
  for (const SequenceTree& tree : trees) {
    ROUTEOPD_INVARIANT(!tree.stem.empty());
    Row row{.stem_start = append(tree.stem, 0), .stem_length = std::ssize(tree.stem)};
    if (tree.branches.empty()) rows.push_back(row);
    for (const auto& branch : tree.branches) {
      row.start = append(branch, row.stem_length);
      row.length = std::ssize(branch);
      rows.push_back(row);
      row.answers_for_stem = false;
    }
  }
  batch.ids_T = long_tensor(ids);
  batch.positions_T = long_tensor(positions);
  add_groups(batch, std::move(rows));
  return batch;
}

PackedBatch pack(std::span<const std::vector<std::int32_t>> sequences) {
  std::vector<SequenceTree> trees;
  std::vector<std::int64_t> starts = {0};
  for (const auto& sequence : sequences) {
    trees.push_back({.stem = sequence, .branches = {}});
    starts.push_back(starts.back() + std::ssize(sequence));
  }
  PackedBatch batch = pack_trees(trees);
  batch.starts_S1 = std::move(starts);
  return batch;
}

std::size_t portion_end(const Rollout& rollout, std::size_t first, std::size_t end, std::int64_t tokens) {
  std::int64_t used = 0;
  for (std::size_t b = first; b < end; ++b) {
    const Response& response = rollout.responses_B[b];
    if (b == first || response.prompt != rollout.responses_B[b - 1].prompt)
      used += std::ssize(prompt_of(rollout, response));
    used += tokens_read(response);
    if (used > tokens && b > first) return b;
  }
  return end;
}

ResponseBatch pack_responses(const Rollout& rollout, std::size_t first, std::size_t end) {
  std::vector<SequenceTree> trees;
  std::vector<std::int64_t> places;
  std::int64_t next = 0, last_of_prompt = 0;
  for (std::size_t b = first; b < end; ++b) {
    const Response& response = rollout.responses_B[b];
    if (b == first || response.prompt != rollout.responses_B[b - 1].prompt) {
      trees.push_back({.stem = prompt_of(rollout, response), .branches = {}});
      next += std::ssize(trees.back().stem);
      last_of_prompt = next - 1;
    }
    places.push_back(last_of_prompt);  // predicts the first token of each response
    for (std::int64_t j = 0; j < tokens_read(response); ++j) places.push_back(next++);
    const auto ids = rollout.id_N.begin() + response.first_state;
    trees.back().branches.emplace_back(ids, ids + tokens_read(response));
  }
  const Response& last = rollout.responses_B[end - 1];
  return {.packed = pack_trees(trees),
          .state_places = at::tensor(places, at::kLong),
          .first_state = rollout.responses_B[first].first_state,
          .end_state = last.first_state + last.length};
}

ResponseBatch on_device(const ResponseBatch& batch, at::Device device) {
  if (device.is_cpu()) return batch;
  ResponseBatch there = batch;
  std::vector<at::Tensor*> parts = {&there.packed.ids_T, &there.packed.positions_T,
                                    &there.packed.place_in_groups_T, &there.state_places};
  for (SequenceGroup& group : there.packed.groups) {
    parts.push_back(&group.token_of_slot_BL);
    parts.push_back(&group.slot_of_token);
  }
  std::vector<at::Tensor> on_host;
  for (const at::Tensor* const part : parts) on_host.push_back(*part);
  const at::Tensor all = at::cat(on_host).to(device);
  std::int64_t first = 0;
  for (at::Tensor* const part : parts) {
    const std::int64_t length = part->numel();
    *part = all.narrow(0, first, length);
    first += length;
  }
  return there;
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
