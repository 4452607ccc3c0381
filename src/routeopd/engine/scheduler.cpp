// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/scheduler.h"

#include <algorithm>

#include "routeopd/base/error.h"
#include "routeopd/engine/kv_plan.h"

namespace routeopd::engine {
namespace {

// Tokens of the prompt that have to be read: where nothing follows it, the last one predicts nothing.
std::int64_t tokens_to_read(const Job& job) {
  return std::ssize(job.prompt_ids) - (job.responses() == 0 ? 1 : 0);
}

bool is_finished(const PromptReading& reading) {
  return reading.begun == reading.job->responses() && reading.taken == reading.job->prompt_rows();
}

}  // namespace

Scheduler::Scheduler(BlockPool& pool, Options options) : pool_(pool), options_(std::move(options)) {}

void Scheduler::add(const Job& job) {
  ROUTEOPD_INVARIANT(job.responses() > 0 || job.prompt_rows() > 0);
  ROUTEOPD_INVARIANT(blocks_of(job) <= pool_.total());
  jobs_.push_back(&job);
}

void Scheduler::remove(std::span<const Job> jobs) {
  const auto is_of_them = [&](const Job* job) {
    const std::less<const Job*> before;
    return !before(job, jobs.data()) && before(job, jobs.data() + jobs.size());
  };
  std::erase_if(jobs_, is_of_them);
  const auto gives_back = [&](const auto& holder) {
    if (!is_of_them(holder->job)) return false;
    pool_.release_all(holder->table);
    return true;
  };
  std::erase_if(prompts_, gives_back);
  std::erase_if(waiting_, gives_back);
  std::erase_if(running_, gives_back);
}

bool Scheduler::done() const {
  return waiting_.empty() && prompts_.empty() && running_.empty() && jobs_.empty();
}

StepPlan Scheduler::plan() {
  while (true) {
    StepPlan plan = try_plan();
    if (!plan.empty() || done()) return plan;
    relieve();
  }
}

StepPlan Scheduler::try_plan() {
  StepPlan plan;
  std::int64_t budget = options_.step_tokens;
  grow_running();
  resume_waiting();
  read_running(budget, plan);
  begin_responses(plan);
  read_prompts(budget, plan);
  return plan;
}

// One block is kept free for each response that is being written. Where there is none, all blocks may be
// taken.
bool Scheduler::fits(std::int64_t blocks) const {
  const bool alone =
      running_.empty() && std::all_of(prompts_.begin(), prompts_.end(),
                                      [](const auto& reading) { return reading->table.empty(); });
  return pool_.free() >= blocks + (alone ? 0 : std::ssize(running_) + 1);
}

PromptReading* Scheduler::youngest_holder() {
  const auto found = std::find_if(prompts_.rbegin(), prompts_.rend(),
                                  [](const auto& reading) { return !reading->table.empty(); });
  return found == prompts_.rend() ? nullptr : found->get();
}

// The prompt is read again later.
void Scheduler::drop(PromptReading& reading) {
  pool_.release_all(reading.table);
  reading.read = 0;
  reading.hidden_H.clear();
}

// A block for the next token of every running response, oldest first.
void Scheduler::grow_running() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    while (std::ssize(sequence.table) < blocks_for(std::ssize(sequence.tokens))) {
      if (pool_.free() > 0) {
        sequence.table.push_back(pool_.take());
      } else if (PromptReading* const holder = youngest_holder(); holder != nullptr) {
        drop(*holder);
      } else {
        Sequence& youngest = *running_.back();
        const bool itself = &youngest == &sequence;
        pool_.release_all(youngest.table);
        youngest.read = 0;
        waiting_.push_front(std::move(running_.back()));
        running_.pop_back();
        ++evictions_;
        if (itself) return;
      }
    }
  }
}

void Scheduler::resume_waiting() {
  while (!waiting_.empty() && std::ssize(running_) < options_.step_tokens) {
    Sequence& sequence = *waiting_.front();
    const std::int64_t blocks = blocks_for(std::ssize(sequence.tokens));
    if (!fits(blocks)) return;
    for (std::int64_t i = 0; i < blocks; ++i) sequence.table.push_back(pool_.take());
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// One token of each response that is written; the rest of the budget goes to those that read more than that.
void Scheduler::read_running(std::int64_t& budget, StepPlan& plan) {
  for (const bool many : {false, true}) {
    for (const auto& sequence : running_) {
      const std::int64_t unread = std::ssize(sequence->tokens) - sequence->read;
      if ((unread > 1) != many || unread == 0 || budget == 0) continue;
      const std::int64_t count = std::min(unread, budget), before = sequence->read;
      const std::int64_t first =
          plan.batch.add_run(std::span(sequence->tokens)
                                 .subspan(static_cast<std::size_t>(before), static_cast<std::size_t>(count)),
                             before, sequence->table);
      sequence->read += count;
      budget -= count;
      if (sequence->is_given()) {
        // The state of response token j predicts token j + 1; what was handed over before an eviction is not
        // asked for again.
        const std::int64_t prompt = static_cast<std::int64_t>(sequence->prompt_tokens);
        const std::int64_t from = std::max(before, prompt + sequence->taken), end = before + count;
        if (from >= end) continue;
        plan.reads.push_back({.job = sequence->job,
                              .first = sequence->first_row + 1 + from - prompt,
                              .count = end - from,
                              .state = std::ssize(plan.batch.wanted_W)});
        for (std::int64_t p = from; p < end; ++p)
          plan.batch.wanted_W.push_back(static_cast<std::int32_t>(first + p - before));
        sequence->taken = end - prompt;
        sequence->ended = sequence->read == std::ssize(sequence->tokens);
      } else if (count == unread) {
        plan.states.push_back({.row = std::ssize(plan.batch.wanted_W), .sequences = {sequence.get()}});
        plan.batch.wanted_W.push_back(static_cast<std::int32_t>(first + count - 1));
      }
    }
  }
}

// A prompt whose responses wait for blocks holds back those behind it that have none yet: they would take
// what it waits for.
void Scheduler::read_prompts(std::int64_t& budget, StepPlan& plan) {
  bool responses_wait = false;
  for (std::size_t i = 0; budget > 0; ++i) {
    if (i == prompts_.size()) {
      if (jobs_.empty() || responses_wait) return;
      if (!waiting_.empty() || !fits(blocks_for(tokens_to_read(*jobs_.front())))) return;
      prompts_.push_back(std::make_unique<PromptReading>(PromptReading{.job = jobs_.front()}));
      jobs_.pop_front();
    }
    PromptReading& reading = *prompts_[i];
    if (is_finished(reading)) continue;  // its last response began in this step
    const std::int64_t tokens = tokens_to_read(*reading.job);
    if (reading.table.empty()) {
      const std::int64_t blocks = blocks_for(tokens);
      if (responses_wait || !waiting_.empty() || !fits(blocks)) return;
      for (std::int64_t b = 0; b < blocks; ++b) reading.table.push_back(pool_.take());
    }
    const std::int64_t count = std::min(tokens - reading.read, budget), before = reading.read;
    if (count == 0) {
      responses_wait = true;
      continue;
    }
    const std::int64_t first =
        plan.batch.add_run(std::span(reading.job->prompt_ids)
                               .subspan(static_cast<std::size_t>(before), static_cast<std::size_t>(count)),
                           before, reading.table);
    reading.read += count;
    budget -= count;
    take_prompt_rows(reading, first - before, before + count, plan);
    if (reading.job->responses() == 0 || reading.read < tokens) continue;
    plan.ends.emplace_back(&reading, std::ssize(plan.batch.wanted_W));
    plan.batch.wanted_W.push_back(static_cast<std::int32_t>(first + count - 1));
  }
}

// The prompt's own rows that its tokens up to `end` give; token p stands at `base` + p of the batch. Its last
// token predicts nothing of the prompt.
void Scheduler::take_prompt_rows(PromptReading& reading, std::int64_t base, std::int64_t end,
                                 StepPlan& plan) {
  const Job& job = *reading.job;
  if (job.prompt_from == 0) return;
  const std::int64_t from = job.prompt_from - 1 + reading.taken;  // the token that predicts the next row
  const std::int64_t stop = std::min(end, std::ssize(job.prompt_ids) - 1);
  if (from >= stop) return;
  plan.reads.push_back(
      {.job = &job, .first = reading.taken, .count = stop - from, .state = std::ssize(plan.batch.wanted_W)});
  for (std::int64_t p = from; p < stop; ++p)
    plan.batch.wanted_W.push_back(static_cast<std::int32_t>(base + p));
  reading.taken += stop - from;
}

// Responses to prompts that are read begin as places and blocks allow. Their prompts are kept to the end of
// the step.
void Scheduler::begin_responses(StepPlan& plan) {
  for (const auto& reading : prompts_) {
    const Job& job = *reading->job;
    if (reading->hidden_H.empty() || reading->read < tokens_to_read(job)) continue;
    SampledState state{.prompt = reading.get(), .sequences = {}};
    while (reading->begun < job.responses() && !reading->table.empty()) {
      const std::size_t place = reading->begun;
      const bool last = place + 1 == job.responses();
      if (place < job.samples.size()) {
        if (!may_begin(*reading)) break;
        state.sequences.push_back(&begin_response(*reading, std::exchange(hand_over_, false) || last));
        continue;
      }
      std::int64_t row = job.prompt_rows();
      for (std::size_t g = job.samples.size(); g < place; ++g)
        row += std::ssize(job.given[g - job.samples.size()]);
      const bool short_one = job.given[place - job.samples.size()].size() == 1;
      if (!short_one && !may_begin(*reading)) break;
      plan.reads.push_back({.job = &job, .first = row, .count = 1, .prompt = reading.get()});
      if (short_one) {
        ++reading->begun;  // its only token is predicted by the prompt
      } else {
        begin_response(*reading, std::exchange(hand_over_, false) || last).first_row = row;
      }
    }
    if (!state.sequences.empty()) plan.states.push_back(std::move(state));
  }
}

// Whether there is a place, and blocks, for the next response of a prompt. One to write grows later; a given
// one takes all its blocks at once.
bool Scheduler::may_begin(const PromptReading& reading) const {
  if (std::ssize(running_) >= options_.step_tokens) return false;
  if (hand_over_) return true;
  const Job& job = *reading.job;
  const std::size_t place = reading.begun;
  const bool last = place + 1 == job.responses();
  const std::int64_t prompt = std::ssize(job.prompt_ids);
  const std::int64_t own =
      place < job.samples.size() ? 0 : std::ssize(job.given[place - job.samples.size()]) - 1;
  const std::int64_t held = last ? std::ssize(reading.table) : prompt / kernels::kBlockPositions;
  const std::int64_t blocks = blocks_for(prompt + own) - held;
  return blocks == 0 || fits(blocks);
}

// Shares the blocks that the prompt fills and copies the one that it fills in part; or takes over the
// prompt's blocks.
Sequence& Scheduler::begin_response(PromptReading& reading, bool hand_over) {
  const Job& job = *reading.job;
  auto sequence = std::make_unique<Sequence>();
  sequence->job = &job;
  const std::size_t place = reading.begun++;
  sequence->tokens = job.prompt_ids;
  sequence->prompt_tokens = sequence->tokens.size();
  sequence->read = std::ssize(sequence->tokens);
  if (hand_over) {
    sequence->table = std::exchange(reading.table, {});
    reading.read = 0;  // for responses that are still to begin
  } else {
    const std::size_t whole = sequence->tokens.size() / kernels::kBlockPositions;
    sequence->table.assign(reading.table.begin(), reading.table.begin() + static_cast<std::ptrdiff_t>(whole));
    for (const std::int32_t block : sequence->table) pool_.share(block);
    if (whole < reading.table.size()) {
      sequence->table.push_back(pool_.take());
      options_.copy_block(reading.table[whole], sequence->table.back());
    }
  }
  if (place < job.samples.size()) {
    sequence->sample = job.samples[place];
  } else {
    const std::vector<std::int32_t>& given = job.given[place - job.samples.size()];
    sequence->tokens.insert(sequence->tokens.end(), given.begin(), given.end() - 1);
    while (pool_.free() > 0 && std::ssize(sequence->table) < blocks_for(std::ssize(sequence->tokens)))
      sequence->table.push_back(pool_.take());
  }
  options_.begin(*sequence);
  return *running_.emplace_back(std::move(sequence));
}

// Nothing could be planned: prompts whose responses cannot begin hold the blocks. The youngest of them gives
// its own back; a single one hands them to its next response and is read again for the rest.
void Scheduler::relieve() {
  PromptReading* const holder = youngest_holder();
  ROUTEOPD_INVARIANT(holder != nullptr && running_.empty());
  const auto holders = std::count_if(prompts_.begin(), prompts_.end(),
                                     [](const auto& reading) { return !reading->table.empty(); });
  if (holders > 1 || !waiting_.empty()) return drop(*holder);
  hand_over_ = true;
}

void Scheduler::keep_hidden(const StepPlan& plan, std::span<const float> hidden_WH) {
  if (plan.ends.empty()) return;
  const std::size_t size = hidden_WH.size() / plan.batch.wanted_W.size();
  for (const auto& [reading, row] : plan.ends) {
    const auto state = hidden_WH.subspan(static_cast<std::size_t>(row) * size, size);
    reading->hidden_H.assign(state.begin(), state.end());
  }
}

std::vector<std::unique_ptr<Sequence>> Scheduler::take_ended() {
  std::vector<std::unique_ptr<Sequence>> ended;
  for (auto& sequence : running_) {
    if (!sequence->ended) continue;
    pool_.release_all(sequence->table);
    ended.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
  std::erase_if(prompts_, [&](const auto& reading) {
    if (!is_finished(*reading)) return false;
    pool_.release_all(reading->table);
    return true;
  });
  return ended;
}

}  // namespace routeopd::engine
