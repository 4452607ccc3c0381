// Continuous batching without a model: whatever the limits, every token is read once its predecessors are, in
// blocks that nobody else writes, and everything ends.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/scheduler.h"

#include <gtest/gtest.h>

#include <set>

#include "routeopd/engine/kv_plan.h"

namespace routeopd::engine {
namespace {

// Keys and values are the tokens themselves: what a block holds is which token stands at which position.
class Machine {
 public:
  Machine(std::vector<Prompt> prompts, std::int32_t n, std::int64_t new_tokens, std::int64_t blocks,
          std::int64_t budget)
      : prompts_(std::move(prompts)),
        new_tokens_(new_tokens),
        budget_(budget),
        pool_(blocks),
        memory_(static_cast<std::size_t>(blocks), std::vector<std::int32_t>(16, -1)),
        scheduler_(prompts_, pool_,
                   {.step_tokens = budget,
                    .n = n,
                    .copy_block = [this](std::int32_t from,
                                         std::int32_t to) { memory_[size(to)] = memory_[size(from)]; },
                    .begin = [](Sequence&) {}}) {}

  // Runs to the end; how many responses ended.
  std::int64_t run() {
    std::int64_t ended = 0;
    for (std::int64_t step = 0; !scheduler_.done(); ++step) {
      EXPECT_LT(step, 100000) << "no end";
      if (step == 100000) break;
      const StepPlan plan = scheduler_.plan();
      read(plan.batch);
      scheduler_.keep_hidden(plan, std::vector<float>(plan.batch.wanted_W.size()));
      for (const SampledState& state : plan.states) {
        for (Sequence* const sequence : state.sequences) {
          check(*sequence);
          sequence->tokens.push_back(static_cast<std::int32_t>(1000 * sequence->prompt + sequence->length()));
          // Lengths differ: response s of prompt p has a share of the longest.
          const std::int64_t own =
              1 + (new_tokens_ - 1) * ((sequence->prompt * 7 + sequence->sample * 3) % 5) / 4;
          sequence->ended = static_cast<std::int64_t>(sequence->length()) == own;
        }
      }
      for (const auto& sequence : scheduler_.take_ended()) {
        EXPECT_TRUE(finished_.insert({sequence->prompt, sequence->sample}).second);
        ++ended;
      }
    }
    EXPECT_EQ(pool_.free(), pool_.total()) << "blocks were lost";
    return ended;
  }

  std::int64_t evictions() const { return scheduler_.evictions(); }

 private:
  static std::size_t size(std::int64_t i) { return static_cast<std::size_t>(i); }

  void read(const model::TokenBatch& batch) {
    EXPECT_LE(batch.tokens(), budget_);
    for (std::size_t t = 0; t < batch.ids_T.size(); ++t)
      memory_[size(batch.block_T[t])][size(batch.positions_T[t] % 16)] = batch.ids_T[t];
    EXPECT_TRUE(std::is_sorted(batch.wanted_W.begin(), batch.wanted_W.end()));
  }

  // What the response's next token is drawn from: all its tokens, in its own blocks.
  void check(const Sequence& sequence) {
    ASSERT_EQ(sequence.read, std::ssize(sequence.tokens));
    for (std::size_t p = 0; p < sequence.tokens.size(); ++p)
      ASSERT_EQ(memory_[size(sequence.table[p / 16])][p % 16], sequence.tokens[p]) << "position " << p;
  }

  std::vector<Prompt> prompts_;
  std::int64_t new_tokens_, budget_;
  BlockPool pool_;
  std::vector<std::vector<std::int32_t>> memory_;
  Scheduler scheduler_;
  std::set<std::pair<std::int32_t, std::int32_t>> finished_;
};

std::vector<Prompt> prompts_of(const std::vector<int>& lengths) {
  std::vector<Prompt> prompts;
  for (const int length : lengths) {
    Prompt& prompt = prompts.emplace_back();
    for (int j = 0; j < length; ++j)
      prompt.ids.push_back(100000 + 1000 * static_cast<int>(prompts.size()) + j);
  }
  return prompts;
}

TEST(Scheduler, EveryLimitReachesTheEnd) {
  const std::vector<Prompt> prompts = prompts_of({3, 16, 33, 1, 47, 32, 5, 20});
  std::int64_t evictions = 0;
  for (const std::int32_t n : {1, 2, 5}) {
    for (const std::int64_t new_tokens : {1, 17, 50}) {
      const std::int64_t least = blocks_for(47 + new_tokens - 1);
      for (const std::int64_t blocks : {least, least + 1, least + 3, 2 * least, 40 * least}) {
        for (const std::int64_t budget : {1, 2, 7, 64, 1000}) {
          SCOPED_TRACE(fmt::format("n {} new {} blocks {} budget {}", n, new_tokens, blocks, budget));
          Machine machine(prompts, n, new_tokens, blocks, budget);
          EXPECT_EQ(machine.run(), 8 * n);
          evictions += machine.evictions();
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(evictions, 0) << "the test needs memory that does not do";
}

TEST(Scheduler, ResponsesShareTheirPromptsBlocks) {
  // 4 responses to a prompt of 10 blocks, one token each: 10 blocks and a copy of none.
  Machine whole(prompts_of({160}), 4, 2, 10 + 4, 1000);
  EXPECT_EQ(whole.run(), 4);
  EXPECT_EQ(whole.evictions(), 0);
}

TEST(BlockPool, CountsHolders) {
  BlockPool pool(2);
  const std::int32_t block = pool.take();
  pool.share(block);
  pool.release(block);
  EXPECT_EQ(pool.free(), 1);
  pool.release(block);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(pool.peak(), 1);
}

}  // namespace
}  // namespace routeopd::engine
