// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/shares.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace routeopd::train {
namespace {

std::int64_t expected_tokens(const Prompt& prompt, const Recipe& recipe) {
  const std::int64_t response =
      recipe.sft() ? std::ssize(prompt.response_ids) : recipe.rollout.max_new_tokens;
  return std::ssize(prompt.ids) + response;
}

}  // namespace

std::vector<std::vector<std::size_t>> share_out(const std::vector<Prompt>& prompts, const Recipe& recipe,
                                                int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<std::size_t>> shares(count);
  std::vector<std::int64_t> total(count, 0);
  // A prompt whose responses lie in two minibatches counts in the first of them.
  const std::size_t parts = std::min(static_cast<std::size_t>(recipe.train.minibatches), prompts.size());
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<std::size_t> places;
    for (std::size_t p = prompts.size() * part / parts; p < prompts.size() * (part + 1) / parts; ++p)
      places.push_back(p);
    std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
      return expected_tokens(prompts[a], recipe) > expected_tokens(prompts[b], recipe);
    });
    std::vector<std::int64_t> load(count, 0);  // of this part: ranks wait for each other after each
    for (const std::size_t place : places) {
      std::size_t least = 0;
      for (std::size_t rank = 1; rank < count; ++rank)
        if (std::tie(load[rank], total[rank]) < std::tie(load[least], total[least])) least = rank;
      const std::int64_t tokens = expected_tokens(prompts[place], recipe);
      load[least] += tokens;
      total[least] += tokens;
      shares[least].push_back(place);
    }
  }
  for (std::vector<std::size_t>& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

}  // namespace routeopd::train
