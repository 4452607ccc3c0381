// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/job_runner.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd::engine {
namespace {

constexpr std::size_t kHeldRows = 64;      // rows of logits that are held at a time
constexpr std::int64_t kWideGather = 256;  // columns: who asks for more pays for them alone
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

std::int32_t columns_of(std::int32_t k, const model::StreamingHead& head) {
  return std::min(k, static_cast<std::int32_t>(head.real_ids()));
}

// Copies `width` columns of a row-major matrix into another one, from row `at` to row `to`.
template <class T>
void copy_columns(const at::Tensor& from, std::int64_t at, std::vector<T>& into, std::int64_t to,
                  std::int64_t rows, std::int64_t width) {
  const T* const values = from.const_data_ptr<T>();
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(values + (at + r) * from.size(1), width, into.begin() + (to + r) * width);
}

}  // namespace

JobRunner::JobRunner(Parts parts)
    : parts_(std::move(parts)),
      pool_(parts_.blocks),
      scheduler_(pool_, {.step_tokens = parts_.step_tokens,
                         .copy_block = [this](std::int32_t from,
                                              std::int32_t to) { parts_.storage.copy_block(from, to); },
                         .begin =
                             [this](Sequence& sequence) {
                               if (!sequence.job->sampling.stop.empty() && parts_.tokenizer != nullptr)
                                 sequence.stop.emplace(*parts_.tokenizer, sequence.job->sampling.stop);
                             }}) {
  ROUTEOPD_INVARIANT(parts_.blocks <= parts_.storage.blocks());
}

void JobRunner::add(const Job& job) {
  const auto rows = static_cast<std::size_t>(job.rows());
  Progress progress{.rows_left = job.rows(), .responses_left = job.samples.size()};
  StateValues& read = progress.read;
  read.columns = columns_of(job.k, parts_.head);
  read.hidden_size = job.hidden ? parts_.head.hidden_size() : 0;
  read.top_ids_NK.assign(rows * static_cast<std::size_t>(read.columns), -1);
  read.top_logits_NK.assign(read.top_ids_NK.size(), kUnknown);
  read.logsumexp_N.assign(rows, kUnknown);
  read.gathered_NG.assign(rows * static_cast<std::size_t>(job.gather_columns), kUnknown);
  read.hidden_NH.assign(rows * static_cast<std::size_t>(read.hidden_size), 0);
  ROUTEOPD_INVARIANT(job.gather_ids_RG.size() == read.gathered_NG.size());
  if (job.ranks) progress.rank_R.assign(rows, 0);
  jobs_.emplace(&job, std::move(progress));
  scheduler_.add(job);
}

void JobRunner::remove(std::span<const Job> jobs) {
  std::size_t known = 0;
  for (const Job& job : jobs) known += jobs_.erase(&job);
  if (known > 0) scheduler_.remove(jobs);
}

StepResult JobRunner::step() {
  StepResult result;
  if (idle()) return result;
  const c10::NoGradGuard no_grad;
  const StepPlan plan = scheduler_.plan();
  at::Tensor hidden_WH;
  if (plan.batch.tokens() > 0) {
    hidden_WH = parts_.decoder.forward(plan.batch, parts_.storage);
    scheduler_.keep_hidden(plan,
                           {hidden_WH.const_data_ptr<float>(), static_cast<std::size_t>(hidden_WH.numel())});
  }
  take_tokens(plan, hidden_WH, result);
  read_rows(plan, hidden_WH);
  result.tokens_read = plan.batch.tokens();
  result.only_decoded =
      plan.batch.tokens() > 0 && plan.batch.tokens() == std::ssize(plan.batch.runs) && plan.reads.empty();

  std::vector<const Job*> touched;
  for (const ReadRows& rows : plan.reads) touched.push_back(rows.job);
  for (auto& sequence : scheduler_.take_ended()) {
    if (sequence->is_given()) continue;
    --jobs_.at(sequence->job).responses_left;
    touched.push_back(sequence->job);
    result.ended.push_back(std::move(sequence));
  }
  for (const Job* const job : touched) {
    const auto at = jobs_.find(job);
    if (at == jobs_.end() || at->second.rows_left > 0 || at->second.responses_left > 0) continue;
    result.finished.push_back({job, std::move(at->second.read), std::move(at->second.rank_R)});
    jobs_.erase(at);
  }
  return result;
}

void JobRunner::take_tokens(const StepPlan& plan, const at::Tensor& hidden_WH, StepResult& result) {
  const std::int64_t h = parts_.head.hidden_size(), real_ids = parts_.head.real_ids();
  for (std::size_t first = 0; first < plan.states.size(); first += kHeldRows) {
    const std::span states =
        std::span(plan.states).subspan(first, std::min(kHeldRows, plan.states.size() - first));
    const at::Tensor hidden_SH = at::empty({std::ssize(states), h}, at::kFloat);
    std::vector<std::pair<std::int64_t, Sequence*>> draws;  // row, response
    std::int32_t columns = 1;
    bool entropy = false;
    for (std::size_t s = 0; s < states.size(); ++s) {
      const float* const from = states[s].prompt != nullptr
                                    ? states[s].prompt->hidden_H.data()
                                    : hidden_WH.const_data_ptr<float>() + states[s].row * h;
      std::copy_n(from, h, hidden_SH.data_ptr<float>() + static_cast<std::int64_t>(s) * h);
      for (Sequence* const sequence : states[s].sequences) {
        draws.emplace_back(static_cast<std::int64_t>(s), sequence);
        columns = std::max(columns, columns_of(sequence->job->capture.k, parts_.head));
        entropy = entropy || sequence->job->capture.entropy;
      }
    }
    parts_.head.hold(hidden_SH, columns, held_, entropy);
    const auto k = static_cast<std::size_t>(held_.scores.top_ids_TK.size(1));
    const std::span top_ids(held_.scores.top_ids_TK.const_data_ptr<std::int32_t>(), states.size() * k);
    const std::span top_logits(held_.scores.top_logits_TK.const_data_ptr<float>(), states.size() * k);
    at::parallel_for(0, std::ssize(draws), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto [s, sequence] = draws[static_cast<std::size_t>(i)];
        const auto row = static_cast<std::size_t>(s);
        const StateRow state{
            .row = {.logits = {held_.logits_TR.const_data_ptr<float>() + s * real_ids,
                               static_cast<std::size_t>(real_ids)},
                    .sums = held_.sums_ST.data() + s,
                    .stride = std::ssize(states),
                    .width = held_.tile_width,
                    .best = top_ids[row * k]},
            .logsumexp = held_.scores.logsumexp_T.const_data_ptr<float>()[s],
            .entropy = entropy ? held_.scores.entropy_T.const_data_ptr<float>()[s] : 0.0F,
            .top_ids = top_ids.subspan(row * k, k),
            .top_logits = top_logits.subspan(row * k, k),
            .hidden = {hidden_SH.const_data_ptr<float>() + s * h, static_cast<std::size_t>(h)}};
        sequence->take_token(state, parts_.eos);
      }
    });
    result.tokens_written += std::ssize(draws);
    for (const auto& [s, sequence] : draws)
      if (sequence->job->tell_tokens && !sequence->failed) result.advanced.push_back(sequence);
  }
}

at::Tensor JobRunner::hidden_of(const ReadRows& rows, const at::Tensor& hidden_WH) const {
  if (rows.prompt == nullptr) return hidden_WH.slice(0, rows.state, rows.state + rows.count);
  return at::from_blob(const_cast<float*>(rows.prompt->hidden_H.data()), {1, parts_.head.hidden_size()},
                       at::kFloat);
}

// All rows of the step go through the head in one walk over the vocabulary, with the widest top-k and the
// most ids that any of them asks for; each takes the columns that are its own. Who asks for very many is read
// alone.
void JobRunner::read_rows(const StepPlan& plan, const at::Tensor& hidden_WH) {
  std::vector<const ReadRows*> plain;
  for (const ReadRows& rows : plan.reads) {
    jobs_.at(rows.job).rows_left -= rows.count;
    if (rows.job->ranks) {
      read_with_ranks(rows, hidden_of(rows, hidden_WH));
    } else if (rows.job->gather_columns > kWideGather || rows.job->k > kWideGather) {
      read_together({&rows}, hidden_WH);
    } else {
      plain.push_back(&rows);
    }
  }
  if (!plain.empty()) read_together(plain, hidden_WH);
}

void JobRunner::read_together(const std::vector<const ReadRows*>& plain, const at::Tensor& hidden_WH) {
  std::int64_t count = 0, columns = 1, gathers = 0;
  for (const ReadRows* const rows : plain) {
    count += rows->count;
    columns = std::max<std::int64_t>(columns, columns_of(rows->job->k, parts_.head));
    gathers = std::max(gathers, rows->job->gather_columns);
  }
  std::vector<at::Tensor> hidden;
  at::Tensor gather_CG;
  if (gathers > 0) gather_CG = at::full({count, gathers}, -1, at::kInt);
  std::int64_t at = 0;
  for (const ReadRows* const rows : plain) {
    hidden.push_back(hidden_of(*rows, hidden_WH));
    const std::int64_t g = rows->job->gather_columns;
    for (std::int64_t r = 0; g > 0 && r < rows->count; ++r)
      std::copy_n(rows->job->gather_ids_RG.begin() + (rows->first + r) * g, g,
                  gather_CG.data_ptr<std::int32_t>() + (at + r) * gathers);
    at += rows->count;
  }
  const at::Tensor hidden_CH = hidden.size() == 1 ? hidden.front() : at::cat(hidden);
  const model::HeadScores scores = parts_.head.score(hidden_CH, columns, gather_CG);
  at = 0;
  for (const ReadRows* const rows : plain) {
    store(*rows, scores, at, hidden_CH.slice(0, at, at + rows->count));
    if (rows->job->gather_columns > 0)
      copy_columns(scores.gathered_TG, at, jobs_.at(rows->job).read.gathered_NG, rows->first, rows->count,
                   rows->job->gather_columns);
    at += rows->count;
  }
}

// Ranks need whole rows of logits, a few at a time.
void JobRunner::read_with_ranks(const ReadRows& rows, const at::Tensor& hidden_CH) {
  const Job& job = *rows.job;
  Progress& progress = jobs_.at(&job);
  const std::int64_t columns = std::max(columns_of(job.k, parts_.head), 1), g = job.gather_columns;
  const std::int64_t real_ids = parts_.head.real_ids();
  for (std::int64_t first = 0; first < rows.count; first += static_cast<std::int64_t>(kHeldRows)) {
    const std::int64_t count =
        std::min<std::int64_t>(static_cast<std::int64_t>(kHeldRows), rows.count - first);
    const at::Tensor part = hidden_CH.slice(0, first, first + count).contiguous();
    parts_.head.hold(part, columns, held_);
    store({.job = &job, .first = rows.first + first, .count = count}, held_.scores, 0, part);
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::span logits(held_.logits_TR.const_data_ptr<float>() + r * real_ids,
                               static_cast<std::size_t>(real_ids));
        const std::int64_t row = rows.first + first + r;
        for (std::int64_t c = 0; c < g; ++c) {
          const auto at = static_cast<std::size_t>(row * g + c);
          const std::int32_t id = job.gather_ids_RG[at];
          if (id < 0) continue;
          const float value = logits[static_cast<std::size_t>(id)];
          progress.read.gathered_NG[at] = value;
          if (c == 0)
            progress.rank_R[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(
                std::count_if(logits.begin(), logits.end(), [&](float other) { return other >= value; }));
        }
      }
    });
  }
}

// Rows `at` on of the head's answer become the job's.
void JobRunner::store(const ReadRows& rows, const model::HeadScores& scores, std::int64_t at,
                      const at::Tensor& hidden_CH) {
  StateValues& read = jobs_.at(rows.job).read;
  if (read.columns > 0) {
    copy_columns(scores.top_ids_TK, at, read.top_ids_NK, rows.first, rows.count, read.columns);
    copy_columns(scores.top_logits_TK, at, read.top_logits_NK, rows.first, rows.count, read.columns);
  }
  std::copy_n(scores.logsumexp_T.const_data_ptr<float>() + at, rows.count,
              read.logsumexp_N.begin() + rows.first);
  if (read.hidden_size > 0) {
    const at::Tensor flat = hidden_CH.contiguous();
    std::copy_n(flat.const_data_ptr<float>(), flat.numel(),
                read.hidden_NH.begin() + rows.first * read.hidden_size);
  }
}

}  // namespace routeopd::engine
