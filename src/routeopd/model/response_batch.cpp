//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/response_batch.h"

#include <vector>

namespace routeopd::model {
namespace {

const std::vector<std::int32_t>& prompt_of(const Rollout& rollout, const Response& response) {
  return rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)];
}

// Nothing is predicted from a response's last token, so it is not read.
std::int64_t tokens_read(const Response& response) {
  return response.length - 1;
}

}  // namespace

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

}  // namespace routeopd::model
