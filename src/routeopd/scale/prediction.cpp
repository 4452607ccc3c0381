// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/prediction.h"

#include <fmt/format.h>

#include "routeopd/base/display.h"
#include "routeopd/base/error.h"

namespace routeopd::scale {
namespace {

std::string bytes_text(double bytes) {
  return byte_text(static_cast<std::int64_t>(std::min(bytes, 1e18)));
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3 && seconds > 0) return fmt::format("{:.3g} s", seconds);
  return seconds < 1 ? fmt::format("{:.4f} s", seconds) : fmt::format("{:.1f} s", seconds);
}

std::string whole(double number) {
  return grouped(static_cast<std::int64_t>(number));
}

std::string device_text(const Device& device) {
  const std::string engine =
      device.engine > 0 ? fmt::format(", {:.4g} in the engine", device.engine / 1e12) : "";
  return fmt::format(
      "{}: {:.4g} TFLOP/s bfloat16, {:.4g} float32{}, {}, {:.4g} GB/s; links {:.4g} GB/s, network {:.4g} "
      "GB/s",
      device.name, device.bfloat16 / 1e12, device.float32 / 1e12, engine, bytes_text(device.memory),
      device.bandwidth / 1e9, device.link / 1e9, device.network / 1e9);
}

// With a vocabulary of a few hundred ids the gathered rows are more than the table.
std::string head_text(const PairHead& head) {
  const double seconds = head.dense_seconds - head.pair_seconds;
  const auto memory = [&](double other) {
    return other > head.pair_bytes ? bytes_text(other - head.pair_bytes) + " of memory" : "no memory";
  };
  return fmt::format(
      "The pair head saves {} a step against the dense head ({} against {} for learning and communication), "
      "and {} ({} against {}); against a learner that forms all logits of a micro-batch, {}.\n",
      seconds > 0 ? seconds_text(seconds) : "no time", seconds_text(head.pair_seconds),
      seconds_text(head.dense_seconds), memory(head.dense_bytes), bytes_text(head.pair_bytes),
      bytes_text(head.dense_bytes), memory(head.whole_logits_bytes));
}

}  // namespace

double Prediction::step_seconds() const {
  double sum = 0;
  for (const Stage& stage : stages) sum += stage.seconds;
  return sum;
}

double Prediction::stage_seconds(const std::string& name) const {
  double sum = 0;
  for (const Stage& stage : stages) sum += stage.name == name ? stage.seconds : 0;
  return sum;
}

double Prediction::step_tokens() const {
  return workload.responses() * lengths_of(workload, assumptions).mean();
}

Prediction predict(const Workload& workload, const Assumptions& assumptions, const Device& device,
                   const Layout& layout) {
  ROUTEOPD_INVARIANT(layout.gpus >= 1 && assumptions.prompt_tokens > 0);
  Prediction prediction;
  prediction.device = device;
  prediction.layout = layout;
  prediction.assumptions = assumptions;
  prediction.workload = workload;
  prediction.memory = memory_of(workload, assumptions, device, layout);
  prediction.stages = stages_of(workload, assumptions, device, layout, prediction.memory);
  const Share share = share_of(workload, assumptions, layout.gpus);
  const double tokens = micro_batch_tokens(workload, assumptions, layout);
  const auto seconds = [&](Head head) {
    const double sent = layout.gpus > 1 ? sent_bytes(workload, assumptions, layout, share, head) : 0;
    return learn_seconds(workload, assumptions, device, layout, share, head) +
           sent / (assumptions.link * device.ring(layout.gpus));
  };
  prediction.head = {.dense_seconds = seconds(Head::kDense),
                     .pair_seconds = seconds(Head::kPair),
                     .dense_bytes = head_bytes(workload, Head::kDense, tokens),
                     .pair_bytes = head_bytes(workload, Head::kPair, tokens),
                     .whole_logits_bytes = whole_logits_bytes(workload, tokens)};
  return prediction;
}

std::string prediction_text(const Prediction& p) {
  std::string text = device_text(p.device) + "\n  " + p.device.source + "\n";
  text += fmt::format("{} of them, {}\n", grouped(p.layout.gpus),
                      p.layout.sharded ? "the learner sharded over all" : "the whole learner on each");
  text += "\nAssumed (--assume NAME=VALUE)\n";
  for (const Field<Assumptions>& field : assumption_fields())
    text += fmt::format("  {:<18}{:>10}  {}\n", field.name,
                        fmt::format("{:.6g}", field.get(p.assumptions).get<double>()), field.help);
  text += "\nMemory of one device, with every response at its longest\n";
  for (const Part& part : p.memory.parts)
    text += fmt::format("  {:<18}{:>10}  {}\n", part.name, bytes_text(part.bytes), part.what);
  text += fmt::format("  {:<18}{:>10}  {}\n", "together", bytes_text(p.memory.device_bytes()),
                      p.memory.fits()
                          ? fmt::format("fits into the {} that may be used", bytes_text(p.memory.usable))
                          : fmt::format("exceeds the {} that may be used; try --shard, recompute = true or "
                                        "a smaller max_new_tokens",
                                        bytes_text(p.memory.usable)));
  if (p.memory.host_bytes() > 0)
    text += fmt::format("  {:<18}{:>10}  beside it, on the host of each device\n", "",
                        bytes_text(p.memory.host_bytes()));
  text += "\nSeconds of one step\n";
  for (const Stage& stage : p.stages)
    text += fmt::format("  {:<18}{:>10}  {}\n", stage.name, seconds_text(stage.seconds), stage.what);
  text +=
      fmt::format("  {:<18}{:>10}  {} tokens written, {:.0f} a second\n", "together",
                  seconds_text(p.step_seconds()), whole(p.step_tokens()), p.step_tokens() / p.step_seconds());
  text += fmt::format(
      "\nThe run: {} steps, {} tokens, {:.3g} hours, {:.4g} GPU-hours; without evaluations, probes and "
      "checkpoints\n",
      whole(p.workload.steps), whole(p.run_tokens()), p.hours(), p.gpu_hours());
  return text + head_text(p.head);
}

Json prediction_json(const Prediction& p) {
  Json assumptions = Json::object(), parts = Json::array(), stages = Json::array();
  for (const Field<Assumptions>& field : assumption_fields())
    assumptions[field.name] = field.get(p.assumptions);
  for (const Part& part : p.memory.parts)
    parts.push_back(
        {{"name", part.name}, {"bytes", part.bytes}, {"what", part.what}, {"on_host", part.on_host}});
  for (const Stage& stage : p.stages)
    stages.push_back({{"name", stage.name}, {"seconds", stage.seconds}, {"what", stage.what}});
  const Device& device = p.device;
  return {{"device",
           {{"name", device.name},
            {"bfloat16_flops", device.bfloat16},
            {"float32_flops", device.float32},
            {"engine_flops", device.engine > 0 ? Json(device.engine) : Json()},
            {"memory_bytes", device.memory},
            {"bandwidth", device.bandwidth},
            {"link", device.link},
            {"network", device.network},
            {"per_machine", device.per_machine},
            {"source", device.source}}},
          {"gpus", p.layout.gpus},
          {"sharded", p.layout.sharded},
          {"assumptions", assumptions},
          {"memory",
           {{"parts", parts},
            {"device_bytes", p.memory.device_bytes()},
            {"host_bytes", p.memory.host_bytes()},
            {"usable_bytes", p.memory.usable},
            {"fits", p.memory.fits()}}},
          {"step",
           {{"stages", stages},
            {"seconds", p.step_seconds()},
            {"tokens", p.step_tokens()},
            {"tokens_per_second", p.step_tokens() / p.step_seconds()}}},
          {"run",
           {{"steps", p.workload.steps},
            {"tokens", p.run_tokens()},
            {"hours", p.hours()},
            {"gpu_hours", p.gpu_hours()}}},
          {"head",
           {{"kind", head_name(p.workload.head)},
            {"dense_seconds", p.head.dense_seconds},
            {"pair_seconds", p.head.pair_seconds},
            {"saved_seconds", p.head.dense_seconds - p.head.pair_seconds},
            {"dense_bytes", p.head.dense_bytes},
            {"pair_bytes", p.head.pair_bytes},
            {"saved_bytes", p.head.dense_bytes - p.head.pair_bytes},
            {"whole_logits_bytes", p.head.whole_logits_bytes}}}};
}

}  // namespace routeopd::scale
