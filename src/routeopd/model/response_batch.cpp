//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/response_batch.h"

#include <utility>
#include <vector>

namespace routeopd::model {
namespace {

const std::vector<std::int32_t>& prompt_of(const Rollout& rollout, const Response& response) {
  return rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)];
}

// Nothing is predicted from a response's last token, so it is not read.
std::int64_t tokens_read(const Rollout& rollout, const Response& response) {
  return std::ssize(prompt_of(rollout, response)) + response.length - 1;
}

}  // namespace

std::size_t portion_end(const Rollout& rollout, std::size_t first, std::size_t end, std::int64_t tokens) {
  std::int64_t used = tokens_read(rollout, rollout.responses_B[first]);
  std::size_t next = first + 1;
  for (; next < end; ++next) {
    used += tokens_read(rollout, rollout.responses_B[next]);
    if (used > tokens) break;
  }
  return next;
}

ResponseBatch pack_responses(const Rollout& rollout, std::size_t first, std::size_t end) {
  std::vector<std::vector<std::int32_t>> sequences;
  std::vector<std::int64_t> places;
  std::int64_t start = 0;
  for (std::size_t b = first; b < end; ++b) {
    const Response& response = rollout.responses_B[b];
    std::vector<std::int32_t> sequence = prompt_of(rollout, response);
    for (std::int64_t j = 0; j < response.length; ++j) places.push_back(start + std::ssize(sequence) - 1 + j);
    const auto ids = rollout.id_N.begin() + response.first_state;
    sequence.insert(sequence.end(), ids, ids + response.length - 1);
    start += std::ssize(sequence);
    sequences.push_back(std::move(sequence));
  }
  const Response& last = rollout.responses_B[end - 1];
  return {.packed = pack(sequences),
          .state_places = at::tensor(places, at::kLong),
          .first_state = rollout.responses_B[first].first_state,
          .end_state = last.first_state + last.length};
}

}  // namespace routeopd::model
