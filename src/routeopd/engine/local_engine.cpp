// Shapes: P prompts, B responses, N states of a rollout, G ids gathered per state, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/local_engine.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/utf8.h"
#include "routeopd/model/heads/gather_head.h"

namespace routeopd::engine {
namespace {

// An answer to all states of the rollout, without values yet.
Answer answer_to(const Rollout& rollout) {
  Answer answer;
  for (const Response& response : rollout.responses_B) answer.rows_B.push_back(response.length);
  answer.id_N = rollout.id_N;
  return answer;
}

}  // namespace

std::int64_t longest_response(const model::Model& model, std::span<const Prompt> prompts, std::int64_t wanted,
                              std::int64_t most) {
  if (wanted > 0) return wanted;
  std::int64_t longest = 0;
  for (const Prompt& prompt : prompts) longest = std::max<std::int64_t>(longest, std::ssize(prompt.ids));
  return std::clamp<std::int64_t>(model.config.max_position_embeddings - longest, 1, most);
}

LocalEngine::LocalEngine(const model::Model& model, std::int32_t real_ids, LocalOptions options)
    : model_(model), real_ids_(real_ids), options_(options) {
  if (real_ids < 1 || real_ids > model.config.vocab_size) {
    throw UserError(
        "engine: the tokenizer has {} ids, but the model's embedding has {} rows; do they belong together?",
        real_ids, model.config.vocab_size);
  }
}

void LocalEngine::check_job(const Job& job) const {
  const Sampling& sampling = job.sampling;
  for (const std::string& stop : sampling.stop)
    if (stop.empty() || find_invalid_utf8(stop) != std::string::npos)
      throw UserError("stop: expected texts of at least one character in UTF-8, got {}", shown(Json(stop)));
  if (!sampling.stop.empty() && options_.tokenizer == nullptr)
    throw UserError("stop: strings are found in text, and the model's directory has no tokenizer.json");
  if (job.prompt_ids.empty()) throw UserError("{}: has no tokens; expected at least one", job.name);
  const auto refuse_outside = [&](const std::vector<std::int32_t>& ids, std::int32_t least,
                                  std::int64_t limit) {
    const auto wrong =
        std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < least || id >= limit; });
    if (wrong != ids.end())
      throw UserError("{}: id {} is outside the vocabulary of {} ids", job.name, *wrong, limit);
  };
  // What was written elsewhere may hold ids of padded rows: they are read, and never drawn.
  const bool writes = !job.samples.empty();
  refuse_outside(job.prompt_ids, 0, writes ? real_ids_ : model_.config.vocab_size);
  for (const auto& response : job.given) {
    if (response.empty()) throw UserError("{}: a given response has no tokens", job.name);
    refuse_outside(response, 0, model_.config.vocab_size);
  }
  refuse_outside(job.gather_ids_RG, -1, real_ids_);
  const std::int64_t positions = model_.config.max_position_embeddings, prompt = std::ssize(job.prompt_ids);
  for (const auto& response : job.given)
    if (prompt + std::ssize(response) > positions)
      throw UserError("score: a sequence of {} tokens passes the model's {} positions",
                      prompt + std::ssize(response), positions);
  if (!writes) {
    if (prompt > positions)
      throw UserError("score: a sequence of {} tokens passes the model's {} positions", prompt, positions);
    return;
  }
  if (prompt >= positions)
    throw UserError("{}: its {} tokens leave no room for a response in the model's {} positions; shorten it",
                    job.name, prompt, positions);
  if (prompt + sampling.max_new_tokens > positions)
    throw UserError(
        "{}: {} tokens and max_new_tokens = {} pass the model's {} positions; try a smaller max_new_tokens "
        "(--max-new)",
        job.name, prompt, sampling.max_new_tokens, positions);
  ROUTEOPD_INVARIANT(job.samples.front() >= 0 &&
                     std::is_sorted(job.samples.begin(), job.samples.end(), std::less_equal<>()));
  check_address({.step = sampling.step,
                 .prompt = job.number,
                 .response = static_cast<std::uint32_t>(job.samples.back()),
                 .position = static_cast<std::uint32_t>(sampling.max_new_tokens)});
}

// Lays out the weights and reserves blocks, where that is still to be done.
void LocalEngine::prepare(std::int64_t blocks) {
  if (!decoder_) {
    decoder_ = std::make_unique<model::InferenceDecoder>(model_, options_.storage);
    head_ = std::make_unique<model::StreamingHead>(model_.head_VH.detach(), real_ids_,
                                                   model::Backend::kHighway, options_.storage);
  }
  if (std::exchange(stale_, false)) {
    decoder_->update(model_);
    head_->update(model_.head_VH);
  }
  if (storage_ && storage_->blocks() >= blocks) return;
  storage_.reset();
  storage_ = std::make_unique<model::KvStorage>(model_.config, blocks);
}

void LocalEngine::refresh() {
  stale_ = decoder_ != nullptr;
  rounded_head_VH_.reset();
}

KvPlan LocalEngine::kv_plan() const {
  return all_blocks(model_.config, options_.kv_bytes);
}

std::unique_ptr<JobRunner> LocalEngine::make_runner(const KvPlan& kv) {
  const c10::NoGradGuard no_grad;
  prepare(kv.blocks);
  return std::make_unique<JobRunner>(JobRunner::Parts{.decoder = *decoder_,
                                                      .head = *head_,
                                                      .storage = *storage_,
                                                      .blocks = kv.blocks,
                                                      .step_tokens = options_.step_tokens,
                                                      .eos = model_.config.eos_token_ids,
                                                      .tokenizer = options_.tokenizer});
}

Rollout LocalEngine::write_responses(std::span<const Prompt> prompts, const Sampling& sampling,
                                     const Capture& wanted, const Watch& watch) {
  Capture capture = wanted;
  capture.k = std::min(wanted.k, real_ids_);
  const std::vector<Job> jobs = writing_jobs(prompts, sampling, capture);
  std::int64_t total = 0;
  for (const Job& job : jobs) {
    check_job(job);
    total += std::ssize(job.samples);
  }
  stats_ = {.kv = plan_kv(model_.config, jobs, options_.kv_bytes, options_.step_tokens)};
  const std::unique_ptr<JobRunner> runner = make_runner(stats_.kv);
  for (const Job& job : jobs) runner->add(job);

  const auto empty_rollout = [&] {
    Rollout rollout;
    rollout.columns = capture.k;
    rollout.hidden_size = capture.hidden ? model_.config.hidden_size : 0;
    return rollout;
  };
  const auto prompt_of = [&](const Sequence& sequence) {
    return static_cast<std::int32_t>(sequence.job - jobs.data());
  };
  std::vector<std::unique_ptr<Sequence>> ended;
  while (!runner->idle()) {
    check_interrupt();
    const auto start = std::chrono::steady_clock::now();
    StepResult step = runner->step();
    for (auto& sequence : step.ended) {
      if (sequence->failed) throw NonFiniteLogits("{}", failure_of(*sequence));
      ended.push_back(std::move(sequence));
      if (!watch) continue;
      Rollout one = empty_rollout();
      append_response(*ended.back(), prompt_of(*ended.back()), one);
      if (sampling.discard) ended.back().reset();
      watch(std::ssize(ended), total, one);
    }
    ++stats_.steps;
    if (step.only_decoded) {
      ++stats_.decode_steps;
      stats_.decode_seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    stats_.tokens_read += step.tokens_read;
  }
  stats_.peak_blocks = runner->pool().peak();
  stats_.evictions = runner->evictions();

  std::erase(ended, nullptr);
  std::sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) {
    return std::pair(a->job, a->sample) < std::pair(b->job, b->sample);
  });
  Rollout rollout = empty_rollout();
  for (const Prompt& prompt : prompts) rollout.prompt_ids_P.push_back(prompt.ids);
  for (auto& sequence : ended) {
    append_response(*sequence, prompt_of(*sequence), rollout);
    sequence.reset();
  }
  return rollout;
}

// Every prompt is read once for its responses, and the response states alone go through the head.
Answer LocalEngine::read_responses(const Rollout& rollout, const ScoreRequest& request) {
  const std::vector<Job> jobs = reading_jobs(rollout, request);
  for (const Job& job : jobs) check_job(job);
  const std::int64_t block_bytes = model::KvStorage::block_bytes(model_.config);
  std::int64_t most_blocks = blocks_for(options_.score_tokens);
  if (options_.kv_bytes > 0) most_blocks = std::min(most_blocks, options_.kv_bytes / block_bytes);
  for (const Job& job : jobs) most_blocks = std::max(most_blocks, blocks_of(job));
  const std::unique_ptr<JobRunner> runner =
      make_runner(plan_kv(model_.config, jobs, most_blocks * block_bytes, options_.step_tokens));

  Answer answer = answer_to(rollout);
  std::vector<StateValues> parts(jobs.size());
  for (const Job& job : jobs) runner->add(job);
  while (!runner->idle()) {
    check_interrupt();
    StepResult step = runner->step();
    answer.values.tokens_read += step.tokens_read;
    for (StepResult::Finished& one : step.finished)
      parts[static_cast<std::size_t>(one.job - jobs.data())] = std::move(one.read);
  }
  StateValues& values = answer.values;
  values.columns = std::min(request.k, real_ids_);
  values.hidden_size = request.hidden ? model_.config.hidden_size : 0;
  const auto append = [](auto& all, auto& more) {
    all.insert(all.end(), more.begin(), more.end());
    std::exchange(more, {});
  };
  for (StateValues& part : parts) {
    append(values.top_ids_NK, part.top_ids_NK);
    append(values.top_logits_NK, part.top_logits_NK);
    append(values.logsumexp_N, part.logsumexp_N);
    append(values.gathered_NG, part.gathered_NG);
    append(values.hidden_NH, part.hidden_NH);
  }
  return answer;
}

// From the hidden states that were captured: G rows of the head per state, in place of a second forward.
Answer LocalEngine::gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                                  std::int64_t columns) {
  if (rollout.hidden_size == 0) return Engine::gather_values(rollout, ids_NG, columns);
  const c10::NoGradGuard no_grad;
  const std::int64_t states = rollout.states();
  ROUTEOPD_INVARIANT(rollout.hidden_size == model_.config.hidden_size);
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> ids;
  for (std::int64_t n = 0; n < states; ++n) {
    for (const std::int32_t id :
         ids_NG.subspan(static_cast<std::size_t>(n * columns), static_cast<std::size_t>(columns)))
      if (id >= 0) ids.push_back(id);
    offsets.push_back(std::ssize(ids));
  }
  const at::Tensor hidden_NH =
      at::from_blob(const_cast<float*>(rollout.hidden_NH.data()), {states, rollout.hidden_size}, at::kFloat);
  if (options_.storage == model::WeightStorage::kBFloat16 && !rounded_head_VH_.defined())
    rounded_head_VH_ = model_.head_VH.detach().to(at::kBFloat16);
  const at::Tensor logits = model::gather_logits(
      hidden_NH, rounded_head_VH_.defined() ? rounded_head_VH_ : model_.head_VH.detach(), {offsets, ids});
  const float* next = logits.const_data_ptr<float>();
  Answer answer = answer_to(rollout);
  std::vector<float>& values = answer.values.gathered_NG;
  values.assign(ids_NG.size(), std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < ids_NG.size(); ++i)
    if (ids_NG[i] >= 0) values[i] = *next++;
  return answer;
}

}  // namespace routeopd::engine
