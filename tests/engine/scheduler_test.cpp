// Continuous batching without a model: whatever the limits, every token is read once its predecessors are, in
// blocks that nobody else writes, and everything ends.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "routeopd/engine/kv_plan.h"

namespace routeopd::engine {
namespace {

// Keys and values are the tokens themselves: what a block holds is which token stands at which position.
class Machine {
 public:
  Machine(std::vector<Job> jobs, std::int64_t blocks, std::int64_t budget)
      : jobs_(std::move(jobs)),
        budget_(budget),
        pool_(blocks),
        memory_(static_cast<std::size_t>(blocks), std::vector<std::int32_t>(16, -1)),
        scheduler_(pool_, {.step_tokens = budget,
                           .copy_block = [this](std::int32_t from,
                                                std::int32_t to) { memory_[size(to)] = memory_[size(from)]; },
                           .begin = [](Sequence&) {}}) {}

  // Runs to the end; how many responses were written. Jobs come one by one, `apart` steps after each other,
  // and every `removed`-th is taken out two steps after it came (0: none).
  std::int64_t run(std::int64_t apart = 0, std::size_t removed = 0) {
    std::size_t next = 0;
    for (std::int64_t step = 0; next < jobs_.size() || !scheduler_.done(); ++step) {
      EXPECT_LT(step, 100000) << "no end";
      if (step == 100000) break;
      while (next < jobs_.size() && step >= apart * static_cast<std::int64_t>(next))
        scheduler_.add(jobs_[next++]);
      for (std::size_t j = 0; removed > 0 && j < next; j += removed) {
        if (step == apart * static_cast<std::int64_t>(j) + 2) {
          scheduler_.remove({&jobs_[j], 1});
          removed_.insert(&jobs_[j]);
        }
      }
      if (!scheduler_.done()) this->step();
    }
    EXPECT_EQ(pool_.free(), pool_.total()) << "blocks were lost";
    for (const Job& job : jobs_) {
      if (removed_.contains(&job)) continue;
      EXPECT_EQ(std::ssize(rows_[&job]), job.rows());
    }
    return std::ssize(finished_);
  }

  std::int64_t evictions() const { return scheduler_.evictions(); }
  std::int64_t tokens_read() const { return tokens_read_; }

 private:
  static std::size_t size(std::int64_t i) { return static_cast<std::size_t>(i); }

  // The hidden state of a token is its place in its text: that of the token which it predicts, less one.
  void step() {
    const StepPlan plan = scheduler_.plan();
    EXPECT_FALSE(plan.empty());
    read(plan.batch);
    scheduler_.keep_hidden(plan, std::vector<float>(plan.batch.wanted_W.size()));
    for (const SampledState& state : plan.states) {
      for (Sequence* const sequence : state.sequences) {
        check(*sequence);
        const auto j = sequence->job - jobs_.data();
        sequence->tokens.push_back(static_cast<std::int32_t>(1000 * j + std::ssize(sequence->tokens)));
        // Lengths differ: response s of prompt p has a share of the longest.
        const std::int64_t longest = sequence->job->sampling.max_new_tokens;
        const std::int64_t own = 1 + (longest - 1) * ((j * 7 + sequence->sample * 3) % 5) / 4;
        sequence->ended = static_cast<std::int64_t>(sequence->length()) == own;
      }
    }
    for (const ReadRows& rows : plan.reads) {
      EXPECT_FALSE(removed_.contains(rows.job));
      for (std::int64_t i = 0; i < rows.count; ++i) {
        EXPECT_TRUE(rows_[rows.job].insert(rows.first + i).second) << "a row was read twice";
        const std::int32_t before = token_before(*rows.job, rows.first + i);
        if (rows.prompt != nullptr) {
          EXPECT_EQ(rows.count, 1);
          EXPECT_EQ(rows.job->prompt_ids.back(), before);
        } else {
          const std::int32_t at = plan.batch.wanted_W[size(rows.state + i)];
          EXPECT_EQ(plan.batch.ids_T[size(at)], before) << "the state of another token";
        }
      }
    }
    for (const auto& sequence : scheduler_.take_ended()) {
      EXPECT_FALSE(removed_.contains(sequence->job));
      if (sequence->is_given()) continue;
      EXPECT_TRUE(finished_.insert({sequence->job, sequence->sample}).second);
    }
  }

  // The token whose state predicts row `row` of a job.
  static std::int32_t token_before(const Job& job, std::int64_t row) {
    if (row < job.prompt_rows()) return job.prompt_ids[size(job.prompt_from + row - 1)];
    row -= job.prompt_rows();
    for (const auto& response : job.given) {
      if (row < std::ssize(response)) return row == 0 ? job.prompt_ids.back() : response[size(row - 1)];
      row -= std::ssize(response);
    }
    return -1;
  }

  void read(const model::TokenBatch& batch) {
    EXPECT_LE(batch.tokens(), budget_);
    tokens_read_ += batch.tokens();
    for (std::size_t t = 0; t < batch.ids_T.size(); ++t)
      memory_[size(batch.block_T[t])][size(batch.positions_T[t] % 16)] = batch.ids_T[t];
    EXPECT_TRUE(std::is_sorted(batch.wanted_W.begin(), batch.wanted_W.end()));
    // Each run attends to its own text: a token's place is part of its number.
    for (const model::TokenRun& run : batch.runs) {
      const std::int32_t first =
          batch.ids_T[size(run.first_token)] - static_cast<std::int32_t>(run.first_position);
      for (std::int64_t p = 0; p < run.first_position + run.tokens; ++p)
        ASSERT_EQ(memory_[size(batch.blocks[size(run.first_block + p / 16)])][size(p % 16)], first + p)
            << "position " << p;
    }
  }

  // What the response's next token is drawn from: all its tokens, in its own blocks.
  void check(const Sequence& sequence) {
    ASSERT_EQ(sequence.read, std::ssize(sequence.tokens));
    for (std::size_t p = 0; p < sequence.tokens.size(); ++p)
      ASSERT_EQ(memory_[size(sequence.table[p / 16])][p % 16], sequence.tokens[p]) << "position " << p;
  }

  std::vector<Job> jobs_;
  std::int64_t budget_, tokens_read_ = 0;
  BlockPool pool_;
  std::vector<std::vector<std::int32_t>> memory_;
  Scheduler scheduler_;
  std::set<std::pair<const Job*, std::int32_t>> finished_;
  std::map<const Job*, std::set<std::int64_t>> rows_;
  std::set<const Job*> removed_;
};

// Token p of every text of job j is 1000 j + p.
std::vector<Job> jobs_of(const std::vector<int>& lengths, std::int32_t n, std::int64_t new_tokens) {
  std::vector<Job> jobs;
  for (const int length : lengths) {
    const auto j = static_cast<std::int32_t>(jobs.size());
    Job& job = jobs.emplace_back();
    for (int p = 0; p < length; ++p) job.prompt_ids.push_back(1000 * j + p);
    for (std::int32_t s = 0; s < n; ++s) job.samples.push_back(s);
    job.sampling.max_new_tokens = new_tokens;
  }
  return jobs;
}

// Reading of every kind: the prompt's own rows from its second token or its last one, given responses of one
// token and of many, beside responses to write or without.
std::vector<Job> mixed_jobs(std::int32_t n, std::int64_t new_tokens) {
  std::vector<Job> jobs = jobs_of({3, 16, 33, 2, 47, 32, 5, 20}, n, new_tokens);
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    Job& job = jobs[j];
    const auto length = static_cast<std::int32_t>(job.prompt_ids.size());
    if (j % 2 == 0) job.prompt_from = j % 4 == 0 ? 1 : length - 1;
    if (j % 3 == 1) job.samples.clear();
    if (j % 3 != 0) {
      for (const std::int32_t own : {1, static_cast<std::int32_t>(new_tokens), 1, 9}) {
        auto& response = job.given.emplace_back();
        for (std::int32_t i = 0; i < std::min(own, static_cast<std::int32_t>(new_tokens)); ++i)
          response.push_back(static_cast<std::int32_t>(1000 * j) + length + i);
      }
    }
  }
  jobs[6].samples.clear();  // its own rows alone
  jobs[6].given.clear();
  return jobs;
}

TEST(Scheduler, EveryLimitReachesTheEnd) {
  std::int64_t evictions = 0, unwritten = 0;
  for (const std::int32_t n : {1, 2, 5}) {
    for (const std::int64_t new_tokens : {1, 17, 50}) {
      const std::int64_t least = blocks_for(47 + new_tokens - 1);
      for (const std::int64_t blocks : {least, least + 1, least + 3, 2 * least, 40 * least}) {
        for (const std::int64_t budget : {1, 2, 7, 64, 1000}) {
          SCOPED_TRACE(fmt::format("n {} new {} blocks {} budget {}", n, new_tokens, blocks, budget));
          Machine machine(jobs_of({3, 16, 33, 1, 47, 32, 5, 20}, n, new_tokens), blocks, budget);
          EXPECT_EQ(machine.run(), 8 * n);
          evictions += machine.evictions();
          const std::vector<Job> mixed = mixed_jobs(n, new_tokens);
          std::int64_t to_write = 0;
          for (const Job& job : mixed) to_write += std::ssize(job.samples);
          for (const std::int64_t apart : {0, 3}) {
            Machine reads(mixed, blocks, budget);
            EXPECT_EQ(reads.run(apart), to_write);
            Machine leaves(mixed, blocks, budget);
            unwritten += to_write - leaves.run(apart, /*removed=*/3);
          }
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(evictions, 0) << "the test needs memory that does not do";
  EXPECT_GT(unwritten, 0) << "the test needs jobs that are removed before they end";
}

TEST(Scheduler, ResponsesShareTheirPromptsBlocks) {
  // 4 responses to a prompt of 10 blocks, one token each: 10 blocks and a copy of none.
  Machine whole(jobs_of({160}, 4, 2), 10 + 4, 1000);
  EXPECT_EQ(whole.run(), 4);
  EXPECT_EQ(whole.evictions(), 0);
}

TEST(Scheduler, ReadsEveryTokenOnceWhereMemoryAllows) {
  const std::vector<Job> jobs = mixed_jobs(2, 17);
  std::int64_t wanted = 0;
  for (const Job& job : jobs) {
    const auto j = static_cast<std::int64_t>(&job - jobs.data());
    wanted += std::ssize(job.prompt_ids) - (job.responses() == 0 ? 1 : 0);
    for (const auto& response : job.given) wanted += std::ssize(response) - 1;
    for (const std::int32_t sample : job.samples) wanted += 16 * ((j * 7 + sample * 3) % 5) / 4;
  }
  Machine machine(jobs, 1000, 64);
  machine.run();
  EXPECT_EQ(machine.tokens_read(), wanted);
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
