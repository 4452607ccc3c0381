// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "routeopd/scale/share.h"

namespace routeopd::scale {
namespace {

// Of a route's visit to a row of the head: its id, its weight, its place.
constexpr double kVisitBytes = 12;

// Of one of k ids, captured: ids and values of both models (Rollout, Scores), as run/plan.cpp counts them.
constexpr double kTopKBytes = 32;

class Planner {
 public:
  Planner(const Workload& workload, const Assumptions& assumptions, const Device& device,
          const Layout& layout)
      : work_(workload), assumptions_(assumptions), device_(device), layout_(layout) {}

  Memory make() {
    memory_.usable = assumptions_.usable * device_.memory;
    learner();
    teachers();
    if (work_.writes && work_.writes_here) keys_and_values();
    return memory_;
  }

 private:
  void add(std::string name, double bytes, std::string what, bool on_host = false) {
    const bool apart = on_host && device_.kind == DeviceKind::kGpu;
    if (bytes > 0) memory_.parts.push_back({std::move(name), bytes, std::move(what), apart});
  }

  void learner() {
    const ModelShape& student = work_.student;
    const double shards = layout_.sharded ? static_cast<double>(layout_.gpus) : 1;
    const bool rounded = work_.compute_bytes < kFloatBytes;
    // Sharded, two blocks and both tables are whole at a time; else a rounded copy of all is.
    const double whole = layout_.sharded && layout_.gpus > 1
                             ? work_.compute_bytes * (2 * student.block + student.tables())
                             : (rounded ? work_.compute_bytes * student.parameters : 0);
    const std::string spread = layout_.sharded && layout_.gpus > 1
                                   ? fmt::format(" over {} devices, two blocks whole", layout_.gpus)
                                   : (rounded ? ", and rounded for the forward" : "");
    add("student", kFloatBytes * student.parameters / shards + whole, "weights, float32" + spread);
    add("gradients", kFloatBytes * student.parameters / shards + whole, "float32" + spread);
    add("optimizer", 2 * kFloatBytes * student.parameters / shards, "AdamW's two moments, float32");
    const double tokens = micro_batch_tokens(work_, assumptions_, layout_);
    const double floats = work_.recompute ? student.layers * student.hidden + 2 * student.activation_floats
                                          : student.layers * student.activation_floats;
    add("activations", tokens * floats * work_.compute_bytes,
        fmt::format("of {:.0f} tokens{}", tokens, work_.recompute ? ", recomputed" : ""));
    add("head", head_bytes(work_, work_.head, tokens),
        work_.head == Head::kDense ? fmt::format("logits of {:.0f} states at a time", work_.dense_chunk)
                                   : fmt::format("{:.0f} rows a state", work_.head_rows));
    if (work_.writes && work_.writes_here)
      add("engine", student.engine_bytes(), "the student as its engine holds it");
    const double states = std::ceil(work_.prompts / static_cast<double>(layout_.gpus)) *
                          work_.responses_per_prompt * work_.longest_response;
    if (work_.routes)
      add("states", states * (student.hidden * kFloatBytes + work_.top_k * kTopKBytes),
          "hidden states and both models' top k, on the host", true);
  }

  void teachers() {
    if (!work_.scores_here) return;
    // On a CPU the weights stay beside the engine's layout of them.
    const bool twice = device_.kind == DeviceKind::kCpu;
    double bytes = 0;
    for (const ModelShape& teacher : work_.teachers)
      bytes += teacher.engine_bytes() + (twice ? kFloatBytes * teacher.parameters : 0);
    add("teacher", bytes, work_.teachers.size() > 1 ? "all of them, on every device" : "on every device");
  }

  // They get what the others leave, up to what all responses want.
  void keys_and_values() {
    const Share share = share_of(work_, assumptions_, layout_.gpus);
    const double position = work_.student.kv_bytes();
    const double prompt = std::max(work_.longest_prompt, share.prompt_length);
    memory_.kv_wanted =
        position * share.prompts * (prompt + work_.responses_per_prompt * work_.longest_response);
    const double bound = work_.kv_bytes > 0 ? work_.kv_bytes : memory_.kv_wanted;
    const double least = position * (prompt + work_.longest_response);
    const double left = memory_.usable - memory_.device_bytes();
    memory_.kv_given = std::max(least, std::min({memory_.kv_wanted, bound, left}));
    const double mean = lengths_of(work_, assumptions_).mean();
    const double held =
        std::floor(memory_.kv_given / (position * (share.prompt_length / work_.responses_per_prompt + mean)));
    memory_.concurrent = std::clamp(held, 1.0, share.responses);
    add("keys and values", memory_.kv_given,
        memory_.kv_given < memory_.kv_wanted
            ? fmt::format("{:.0f} of {:.0f} responses at a time", memory_.concurrent, share.responses)
            : fmt::format("{:.0f} responses at once, all at their longest", share.responses));
  }

  const Workload& work_;
  const Assumptions& assumptions_;
  const Device& device_;
  const Layout& layout_;
  Memory memory_;
};

}  // namespace

double Memory::device_bytes() const {
  double sum = 0;
  for (const Part& part : parts) sum += part.on_host ? 0 : part.bytes;
  return sum;
}

double Memory::host_bytes() const {
  double sum = 0;
  for (const Part& part : parts) sum += part.on_host ? part.bytes : 0;
  return sum;
}

double Memory::bytes_of(const std::string& name) const {
  double sum = 0;
  for (const Part& part : parts) sum += part.name == name ? part.bytes : 0;
  return sum;
}

Memory memory_of(const Workload& workload, const Assumptions& assumptions, const Device& device,
                 const Layout& layout) {
  return Planner(workload, assumptions, device, layout).make();
}

double micro_batch_tokens(const Workload& workload, const Assumptions& assumptions, const Layout& layout) {
  const double prompts = std::ceil(workload.prompts / static_cast<double>(layout.gpus));
  // Given responses have the lengths they have; what will be written may be as long as is allowed.
  const double response =
      workload.writes ? workload.longest_response : lengths_of(workload, assumptions).mean();
  const double step = prompts * (assumptions.prompt_tokens + workload.responses_per_prompt * response);
  const double prompt = std::max(workload.longest_prompt, assumptions.prompt_tokens);
  return std::max(prompt + workload.longest_response,
                  std::min(workload.micro_tokens, step / workload.minibatches));
}

double head_bytes(const Workload& workload, Head head, double tokens) {
  if (head == Head::kDense) return 2 * workload.dense_chunk * workload.student.vocabulary * kFloatBytes;
  return tokens * (head == Head::kPair ? workload.pair_rows : workload.head_rows) * kVisitBytes;
}

double whole_logits_bytes(const Workload& workload, double tokens) {
  const double copies =
      workload.compute_bytes < kFloatBytes ? workload.compute_bytes + 2 * kFloatBytes : 2 * kFloatBytes;
  return tokens * workload.student.vocabulary * copies;
}

}  // namespace routeopd::scale
