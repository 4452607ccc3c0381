// Merging against the definition of byte-pair encoding: the pair of lowest rank, the leftmost, one at a time.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/tokenizer/merge_queue.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::tokenizer {
namespace {

using Pair = std::pair<std::string, std::string>;

// Merges in any order: a token may consist of parts from later merges, and in several ways.
std::vector<Pair> random_merges(std::mt19937& random) {
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<Pair> merges;
  while (merges.size() < 25) {
    const Pair pair = {tokens[random() % tokens.size()], tokens[random() % tokens.size()]};
    const std::string joined = pair.first + pair.second;
    if (joined.size() > 10 || std::find(merges.begin(), merges.end(), pair) != merges.end()) continue;
    merges.push_back(pair);
    if (std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) tokens.push_back(joined);
  }
  std::shuffle(merges.begin(), merges.end(), random);
  return merges;
}

std::vector<std::string> merged_by_definition(const std::string& word, const std::vector<Pair>& merges) {
  std::map<Pair, std::size_t> ranks;
  for (const Pair& pair : merges) ranks.emplace(pair, ranks.size());
  std::vector<std::string> symbols;
  for (const char letter : word) symbols.emplace_back(1, letter);
  for (;;) {
    std::size_t best = merges.size();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      place = i;
    }
    if (best == merges.size()) return symbols;
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(Bpe, MergesAsItIsDefined) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const std::vector<Pair> merges = random_merges(random);
    Json vocabulary = {{"a", 0}, {"b", 1}, {"c", 2}};
    Json list = Json::array();
    for (const auto& [left, right] : merges) {
      list.push_back({left, right});
      if (!vocabulary.contains(left + right)) vocabulary[left + right] = vocabulary.size();
    }
    const Json file = {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", list}}}};
    const Tokenizer tokenizer = Tokenizer::from_json(file.dump(), "test");
    // Words short enough to search, for a heap, and for a list per rank.
    for (const std::size_t length : {1U, 2U, 7U, 31U, 32U, 33U, 100U, 300U, round % 15 == 0 ? 4200U : 40U}) {
      std::string word;
      while (word.size() < length) word += static_cast<char>('a' + random() % (round % 3 + 1));
      std::vector<std::string> tokens;
      for (const std::int32_t id : tokenizer.encode(word)) tokens.push_back(tokenizer.token_of(id));
      ASSERT_EQ(tokens, merged_by_definition(word, merges)) << word << " " << list;
    }
  }
}

TEST(MergeQueue, BothGiveTheSameOrder) {
  std::mt19937 random(6);
  MergeHeap heap;
  MergeBuckets buckets;
  for (int step = 0; step < 20'000; ++step) {
    if (heap.empty() || random() % 5 < (step / 1000 % 2 == 0 ? 3U : 2U)) {  // grows and shrinks in turn
      const MergeOffer offer = {static_cast<std::int32_t>(random() % 7),
                                static_cast<std::int32_t>(random() % 1000)};
      heap.push(offer);
      buckets.push(offer);
    } else {
      const MergeOffer wanted = heap.pop();
      const MergeOffer got = buckets.pop();
      ASSERT_EQ(std::pair(got.rank, got.place), std::pair(wanted.rank, wanted.place)) << step;
    }
    ASSERT_EQ(buckets.empty(), heap.empty());
  }
}

}  // namespace
}  // namespace routeopd::tokenizer
