// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/scheduler.h"

#include <algorithm>

#include "routeopd/base/error.h"
#include "routeopd/engine/kv_plan.h"

namespace routeopd::engine {

Scheduler::Scheduler(std::span<const Prompt> prompts, BlockPool& pool, Options options)
    : all_(prompts), pool_(pool), options_(std::move(options)) {}

bool Scheduler::done() const {
  return waiting_.empty() && prompts_.empty() && running_.empty() && next_prompt_ == all_.size();
}

const std::vector<std::int32_t>& Scheduler::ids_of(const PromptReading& reading) const {
  return all_[static_cast<std::size_t>(reading.prompt)].ids;
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

// One token of each response; the rest of the budget goes to those that read their tokens again.
void Scheduler::read_running(std::int64_t& budget, StepPlan& plan) {
  for (const bool again : {false, true}) {
    for (const auto& sequence : running_) {
      const std::int64_t unread = std::ssize(sequence->tokens) - sequence->read;
      if ((unread > 1) != again || unread == 0 || budget == 0) continue;
      const std::int64_t count = std::min(unread, budget);
      const std::int64_t first = plan.batch.add_run(
          std::span(sequence->tokens)
              .subspan(static_cast<std::size_t>(sequence->read), static_cast<std::size_t>(count)),
          sequence->read, sequence->table);
      sequence->read += count;
      budget -= count;
      if (count < unread) continue;
      plan.states.push_back({.row = std::ssize(plan.batch.wanted_W), .sequences = {sequence.get()}});
      plan.batch.wanted_W.push_back(static_cast<std::int32_t>(first + count - 1));
    }
  }
}

void Scheduler::read_prompts(std::int64_t& budget, StepPlan& plan) {
  for (std::size_t i = 0; budget > 0; ++i) {
    if (i == prompts_.size()) {
      if (next_prompt_ == all_.size()) return;
      auto reading = std::make_unique<PromptReading>();
      reading->prompt = static_cast<std::int32_t>(next_prompt_);
      if (!waiting_.empty() || !fits(blocks_for(std::ssize(ids_of(*reading))))) return;
      prompts_.push_back(std::move(reading));
      ++next_prompt_;
    }
    PromptReading& reading = *prompts_[i];
    if (reading.begun == responses_of(reading)) continue;  // its last response began in this step
    const std::vector<std::int32_t>& ids = ids_of(reading);
    if (reading.table.empty()) {
      const std::int64_t blocks = blocks_for(std::ssize(ids));
      if (!waiting_.empty() || !fits(blocks)) return;
      for (std::int64_t b = 0; b < blocks; ++b) reading.table.push_back(pool_.take());
    }
    const std::int64_t count = std::min(std::ssize(ids) - reading.read, budget);
    if (count == 0) continue;  // read already, with responses still to begin
    const std::int64_t first = plan.batch.add_run(
        std::span(ids).subspan(static_cast<std::size_t>(reading.read), static_cast<std::size_t>(count)),
        reading.read, reading.table);
    reading.read += count;
    budget -= count;
    if (reading.read < std::ssize(ids)) continue;
    plan.ends.emplace_back(&reading, std::ssize(plan.batch.wanted_W));
    plan.batch.wanted_W.push_back(static_cast<std::int32_t>(first + count - 1));
  }
}

// Responses to prompts that are read begin as places and blocks allow. Their prompts are kept to the end of
// the step.
void Scheduler::begin_responses(StepPlan& plan) {
  for (const auto& reading : prompts_) {
    if (reading->hidden_H.empty() || reading->read < std::ssize(ids_of(*reading))) continue;
    SampledState state{.prompt = reading.get(), .sequences = {}};
    const bool copies = std::ssize(ids_of(*reading)) % kernels::kBlockPositions != 0;
    while (reading->begun < responses_of(*reading) && std::ssize(running_) < options_.step_tokens &&
           !reading->table.empty()) {
      const bool last = reading->begun + 1 == responses_of(*reading);
      if (copies && !last && !hand_over_ && !fits(1)) break;
      state.sequences.push_back(&begin_response(*reading, last || std::exchange(hand_over_, false)));
    }
    if (!state.sequences.empty()) plan.states.push_back(std::move(state));
  }
}

// Shares the blocks that the prompt fills and copies the one that it fills in part; or takes over the
// prompt's blocks.
Sequence& Scheduler::begin_response(PromptReading& reading, bool hand_over) {
  auto sequence = std::make_unique<Sequence>();
  sequence->prompt = reading.prompt;
  const std::size_t place = reading.begun++;
  sequence->sample = options_.samples_P.empty()
                         ? static_cast<std::int32_t>(place)
                         : options_.samples_P[static_cast<std::size_t>(reading.prompt)][place];
  sequence->tokens = ids_of(reading);
  sequence->prompt_tokens = sequence->tokens.size();
  sequence->prompt_number = all_[static_cast<std::size_t>(reading.prompt)].number;
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
  std::erase_if(prompts_, [&](const auto& reading) { return reading->begun == responses_of(*reading); });
  return ended;
}

std::size_t Scheduler::responses_of(const PromptReading& reading) const {
  return options_.samples_P.empty() ? static_cast<std::size_t>(options_.n)
                                    : options_.samples_P[static_cast<std::size_t>(reading.prompt)].size();
}

}  // namespace routeopd::engine
