// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace routeopd::scale {
namespace {

// AdamW reads the weight, its gradient and both moments, and writes all but the gradient.
constexpr double kOptimizerBytes = 7 * kFloatBytes;

// Forwards of a rollout are summed in at most this many groups of equal length.
constexpr double kMostGroups = 4096;

double reading_rate(const Assumptions& assumptions, const Device& device, double bytes) {
  return assumptions.reading * device.engine_products(bytes);
}

}  // namespace

// Forward t writes token t of every response that is that long: reach(t) of them. Where fewer fit at once
// than there are, the first forwards are full, and the last responses end alone.
Rollout rollout_of(const Workload& workload, const Assumptions& assumptions, const Device& device,
                   const Share& share, double concurrent) {
  const ModelShape& student = workload.student;
  const Lengths lengths = lengths_of(workload, assumptions);
  const double rate = reading_rate(assumptions, device, student.weight_bytes);
  const double bandwidth = assumptions.bandwidth * device.bandwidth;
  const auto forward = [&](double sequences, double position) {
    const double context = share.prompt_length + position;
    const double bytes = student.engine_bytes() + sequences * context * student.kv_bytes();
    const double operations =
        sequences * (2 * (student.body + student.head()) + 4 * student.layers * student.query * context);
    return std::max(bytes / bandwidth, operations / rate) + assumptions.decode_overhead;
  };
  Rollout rollout;
  const Share prompts{
      .prompts = share.prompts, .prompt_length = share.prompt_length, .prompt_tokens = share.prompt_tokens};
  rollout.seconds = forward_operations(student, prompts) / rate;
  const double waiting = std::max(0.0, share.responses - concurrent) * lengths.mean() / concurrent;
  rollout.seconds += waiting * forward(concurrent, lengths.mean() / 2);
  const double group = std::max(1.0, share.longest / kMostGroups);
  for (double begin = 0; begin < share.longest; begin += group) {
    const double forwards = std::min(group, share.longest - begin);
    const double position = begin + forwards / 2;
    rollout.seconds += forwards * forward(std::max(1.0, concurrent * lengths.reach(position)), position);
  }
  rollout.forwards = waiting + share.longest;
  rollout.overhead_seconds = rollout.forwards * assumptions.decode_overhead;
  return rollout;
}

// A teacher's logits are needed at the states of responses alone.
double score_seconds(const Workload& workload, const Assumptions& assumptions, const Device& device,
                     const Share& share) {
  const auto read = [&](const ModelShape& model) {
    return (forward_operations(model, share) + 2 * model.head() * share.response_tokens) /
           reading_rate(assumptions, device, model.weight_bytes);
  };
  double seconds = workload.rescored * read(workload.student);
  if (!workload.scores_here) return seconds;
  for (const ModelShape& teacher : workload.teachers)
    seconds += read(teacher) / static_cast<double>(workload.teachers.size());
  return seconds;
}

// Forward, gradient of the hidden states, gradient of the rows: three products with the rows that are read.
double head_seconds(const Workload& workload, const Assumptions& assumptions, const Device& device,
                    const Share& share, Head head) {
  const ModelShape& student = workload.student;
  const double rate = assumptions.learner * device.products(workload.compute_bytes);
  if (head == Head::kDense) {
    double operations = 6 * student.head() * share.response_tokens;
    if (workload.teacher_logits && !workload.teachers.empty())
      operations += 2 * workload.teachers.front().head() * share.response_tokens;
    return operations / rate;
  }
  const double rows = share.response_tokens * (head == Head::kPair ? workload.pair_rows : workload.head_rows);
  const double bytes =
      rows * student.hidden * (workload.compute_bytes + 2 * kFloatBytes);  // read; add a gradient
  return std::max(6 * rows * student.hidden / rate, bytes / (assumptions.bandwidth * device.bandwidth));
}

// A backward has twice the forward's products; recomputing adds one forward.
double learn_seconds(const Workload& workload, const Assumptions& assumptions, const Device& device,
                     const Layout& layout, const Share& share, Head head) {
  const double rate = assumptions.learner * device.products(workload.compute_bytes);
  const double forwards = (workload.recompute ? 4 : 3) * workload.epochs + workload.extra_forwards;
  const double shards = layout.sharded ? static_cast<double>(layout.gpus) : 1;
  return forwards * forward_operations(workload.student, share) / rate +
         workload.epochs * head_seconds(workload, assumptions, device, share, head) +
         workload.updates() * kOptimizerBytes * workload.student.parameters / shards /
             (assumptions.bandwidth * device.bandwidth);
}

// Around a ring of N, a sum passes 2 (N - 1) / N of its bytes through every link, a gathering or a scattering
// half of that. Unsharded, gradients are summed once an update, those of embedding and head as the rows that
// were touched: at most all. Sharded, every micro-batch gathers the weights for its forward and its backward,
// every update scatters the gradients, and every step gathers the weights for the engine.
double sent_bytes(const Workload& workload, const Assumptions& assumptions, const Layout& layout,
                  const Share& share, Head head) {
  const auto gpus = static_cast<double>(layout.gpus);
  const double around = (gpus - 1) / gpus;
  const ModelShape& student = workload.student;
  if (layout.sharded) {
    const double weights = around * workload.compute_bytes * student.parameters;
    const double micro_batches = std::max(
        workload.minibatches, std::ceil(share.tokens() / micro_batch_tokens(workload, assumptions, layout)));
    return weights * (2 * micro_batches * workload.epochs + 1) +
           workload.updates() * around * kFloatBytes * student.parameters;
  }
  const double states = workload.responses() * lengths_of(workload, assumptions).mean();
  const double tokens = states + workload.prompts * share.prompt_length;
  const double visits = head == Head::kDense
                            ? student.vocabulary
                            : states * (head == Head::kPair ? workload.pair_rows : workload.head_rows);
  const double head_rows = std::min(student.vocabulary, visits / workload.minibatches);
  const double embedding_rows = std::min(student.vocabulary, tokens / workload.minibatches);
  const double rows =
      student.tied ? std::min(student.vocabulary, head_rows + embedding_rows) : head_rows + embedding_rows;
  return workload.updates() * 2 * around * kFloatBytes *
         (student.parameters - student.tables() + rows * student.hidden);
}

std::vector<Stage> stages_of(const Workload& workload, const Assumptions& assumptions, const Device& device,
                             const Layout& layout, const Memory& memory) {
  const Share share = share_of(workload, assumptions, layout.gpus);
  std::vector<Stage> stages;
  if (workload.writes && workload.writes_here) {
    const Rollout rollout = rollout_of(workload, assumptions, device, share, memory.concurrent);
    stages.push_back({"rollout", rollout.seconds,
                      fmt::format("{:.0f} forwards, {:.2f} s of it their overhead", rollout.forwards,
                                  rollout.overhead_seconds)});
  }
  if (const double seconds = score_seconds(workload, assumptions, device, share); seconds > 0)
    stages.push_back({"score", seconds, fmt::format("{:.0f} tokens", share.tokens())});
  if (workload.routes)
    stages.push_back({"route", share.response_tokens * assumptions.route_seconds,
                      fmt::format("{:.0f} states on one core of the host", share.response_tokens)});
  stages.push_back(
      {"learn", learn_seconds(workload, assumptions, device, layout, share, workload.head),
       fmt::format("{:.0f} tokens, {} head {:.3f} s", share.tokens(), head_name(workload.head),
                   workload.epochs * head_seconds(workload, assumptions, device, share, workload.head))});
  if (layout.gpus > 1) {
    const double bytes = sent_bytes(workload, assumptions, layout, share, workload.head);
    stages.push_back({"communication", bytes / (assumptions.link * device.ring(layout.gpus)),
                      fmt::format("{:.2f} GB through each link, none of it hidden", bytes / 1e9)});
  }
  return stages;
}

}  // namespace routeopd::scale
