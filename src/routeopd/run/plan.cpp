// SPDX-License-Identifier: Apache-2.0
#include "routeopd/run/plan.h"

#include <algorithm>

#include "routeopd/base/display.h"
#include "routeopd/base/system.h"
#include "routeopd/engine/kv_plan.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/formats/weight_table.h"
#include "routeopd/kernels/vocabulary_tiles.h"
#include "routeopd/model/decoder.h"
#include "routeopd/model/heads/dense_head.h"
#include "routeopd/model/heads/head_common.h"
#include "routeopd/model/inference/kv_storage.h"
#include "routeopd/model/model_files.h"
#include "routeopd/objective/objective.h"
#include "routeopd/probe/mismatch.h"
#include "routeopd/routing/route_states.h"
#include "routeopd/run/probe_log.h"
#include "routeopd/train/learner_device.h"
#include "routeopd/train/optimizer.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::run {
namespace {

constexpr std::int64_t kFloat = 4;

// Numbers of a recipe may be anything: products and sums of them stop at an exabyte, which fits nowhere.
constexpr std::int64_t kMostBytes = 1'000'000'000'000'000'000;

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMostBytes : std::min(product, kMostBytes);
}

// The engine's copy of the weights: every matrix in panels, the head included, without the embedding.
std::int64_t panel_bytes(const formats::ModelConfig& config, std::int64_t bytes_per_weight) {
  const std::int64_t table = config.vocab_size * config.hidden_size;
  return bytes_per_weight * (formats::parameter_count(config) - (config.tie_word_embeddings ? 0 : table));
}

// The optimizer over tensors that have shapes and no memory.
std::unique_ptr<train::Optimizer> planned_optimizer(const formats::ModelConfig& config,
                                                    const train::OptimizerSection& options) {
  std::vector<model::Parameter> weights;
  const auto shapes_alone = at::TensorOptions(at::kFloat).device(at::kMeta);
  for (const formats::WeightRow& row : formats::weight_table(config))
    weights.push_back({row.name, at::empty(row.shape, shapes_alone)});
  return train::make_optimizer(std::move(weights), options);
}

class Planner {
 public:
  Planner(const train::Recipe& recipe, const train::RunPrompts& prompts)
      : recipe_(recipe),
        student_(prompts.student),
        teachers_(prompts.teachers),
        named_(recipe.run_teachers()),
        real_ids_(prompts.real_ids),
        prompts_(prompts.prompts) {
    model::describe_weights(recipe.student.path);  // are they there?
    ROUTEOPD_INVARIANT(teachers_.size() == named_.size());
    for (std::size_t t = 0; t < named_.size(); ++t) {
      weight_bytes_T_.push_back(0);
      plan_.teachers.push_back(
          {named_[t].section_name(), named_[t].section->path, formats::parameter_count(teachers_[t])});
      if (named_[t].section->engine != train::EngineKind::kLocal) continue;
      const auto types = model::describe_weights(named_[t].section->path).types;
      weight_bytes_T_.back() = types.size() == 1 && types.begin()->first == "BF16" ? 2 : kFloat;
    }
    plan_.too_long = prompts.too_long;
    plan_.contamination_warning = prompts.contamination_warning;
  }

  Plan make() {
    count();
    weights();
    rollout();
    learner();
    measurements();
    plan_.available_bytes = available_bytes();
    plan_.program_bytes = resident_bytes();
    plan_.device_available_bytes = device_available_bytes();
    return plan_;
  }

 private:
  void add(std::string name, std::int64_t bytes, std::string what) {
    if (bytes > 0) plan_.memory.push_back({std::move(name), bytes, std::move(what)});
  }

  // What the learner works with, where it works.
  void add_learner(std::string name, std::int64_t bytes, std::string what) {
    if (!on_device()) return add(std::move(name), bytes, std::move(what));
    if (bytes > 0) plan_.device_memory.push_back({std::move(name), bytes, std::move(what)});
  }

  bool on_device() const { return recipe_.student.device != "cpu"; }

  // A plan may be made where the device is not.
  std::int64_t device_available_bytes() const {
    if (!on_device()) return 0;
    try {
      return train::free_bytes(train::device_named(recipe_.student.device));
    } catch (const UserError&) {
      return 0;
    }
  }

  void count() {
    plan_.student_parameters = formats::parameter_count(student_);
    for (const PlannedTeacher& teacher : plan_.teachers) plan_.teacher_parameters += teacher.parameters;
    plan_.prompts = std::ssize(prompts_);
    std::int64_t all = 0, read = 0, responses = 0;
    for (const Prompt& prompt : prompts_) {
      all += std::ssize(prompt.ids);
      read += std::ssize(teachers_prompt(prompt));
      responses += std::ssize(prompt.response_ids);
      plan_.longest_prompt = std::max<std::int64_t>(plan_.longest_prompt, std::ssize(prompt.ids));
      longest_given_ = std::max<std::int64_t>(longest_given_, std::ssize(prompt.response_ids));
    }
    const auto count = static_cast<double>(std::max<std::int64_t>(1, plan_.prompts));
    plan_.prompt_tokens = static_cast<double>(all) / count;
    plan_.steps = recipe_.train.steps;
    plan_.passes = static_cast<double>(plan_.steps * recipe_.rollout.prompts_per_step) / count;
    plan_.responses = recipe_.responses();
    plan_.response_tokens =
        recipe_.sft() ? static_cast<std::int64_t>(static_cast<double>(plan_.responses * responses) / count)
                      : times(plan_.responses, recipe_.rollout.max_new_tokens);
    const auto step_prompts =
        static_cast<std::int64_t>(plan_.prompt_tokens * recipe_.rollout.prompts_per_step);
    plan_.learner_tokens = step_prompts + plan_.response_tokens;
    if (!teachers_.empty()) {
      plan_.teacher_calls = plan_.responses;
      plan_.teacher_tokens =
          static_cast<std::int64_t>(static_cast<double>(read) / count * recipe_.rollout.prompts_per_step) +
          plan_.response_tokens;
    }
    plan_.micro_batches = std::max<std::int64_t>(
        recipe_.train.minibatches,
        (plan_.learner_tokens + recipe_.train.micro_tokens - 1) / recipe_.train.micro_tokens);
    plan_.updates = recipe_.updates();
  }

  void weights() {
    const bool rounded = recipe_.student.dtype == train::Dtype::kBfloat16;
    const auto optimizer = planned_optimizer(student_, recipe_.optimizer);
    add("student", kFloat * plan_.student_parameters, "weights, float32");
    if (writes_here())
      add("student, for the engine", panel_bytes(student_, rounded ? 2 : kFloat), "laid out in panels");
    for (std::size_t t = 0; t < named_.size(); ++t) {
      if (weight_bytes_T_[t] == 0) continue;  // on a server
      const std::string who = named_[t].name.empty() ? "teacher" : "teacher " + named_[t].name;
      add(who, kFloat * plan_.teachers[t].parameters, "weights, float32");
      add(who + ", for the engine", panel_bytes(teachers_[t], weight_bytes_T_[t]), "laid out in panels");
    }
    if (on_device()) add_learner("student", kFloat * plan_.student_parameters, "weights, float32");
    add_learner("gradients", kFloat * plan_.student_parameters, "float32");
    add_learner(optimizer->name(), optimizer->bytes(), optimizer->state_text());
    if (rounded)
      add_learner("student, bfloat16", 4 * plan_.student_parameters,
                  "weights of the forward, their gradients");
  }

  void rollout() {
    const routing::ObjectiveOptions& objective = recipe_.objective;
    if (teachers_.empty()) return;
    std::vector<Prompt> longest = prompts_;
    const auto step = std::min<std::int64_t>(recipe_.rollout.prompts_per_step, plan_.prompts);
    std::partial_sort(longest.begin(), longest.begin() + step, longest.end(),
                      [](const Prompt& a, const Prompt& b) { return a.ids.size() > b.ids.size(); });
    longest.resize(static_cast<std::size_t>(step));
    const engine::LocalOptions engine;
    const std::vector<engine::Job> jobs = engine::writing_jobs(
        longest, {.n = recipe_.rollout.n, .max_new_tokens = recipe_.rollout.max_new_tokens}, {});
    const auto kv = engine::plan_kv(
        student_, jobs, static_cast<std::int64_t>(recipe_.rollout.kv_memory * 1e9), engine.step_tokens);
    if (writes_here())
      add("keys and values, rollout", kv.bytes(),
          fmt::format("{} blocks of {} positions; [rollout] kv_memory bounds them", grouped(kv.blocks),
                      kernels::kBlockPositions));
    add("keys and values, scoring", scoring_bytes(engine),
        teachers_.size() == 1 ? "the teacher's" : "of one teacher after the other");
    const bool routes = recipe_.makes_routes();
    if (routes) {
      const std::int64_t k = std::min(train::capture_options(objective).k, real_ids_);
      add("captured states", times(plan_.response_tokens, student_.hidden_size * kFloat + k * 32),
          "hidden states and both models' top k, at the longest responses");
    }
    if (routing::needs_support(objective)) support();
    if (routes ? train::needs_teacher_hidden(objective)
               : train::taken_score_options(objective, false).teacher_hidden)
      add("the teacher's hidden states", times(plan_.response_tokens, teachers_.front().hidden_size * kFloat),
          "");
  }

  // Else the student writes on servers; those of [rollout] are not asked for the sft arm.
  bool writes_here() const { return recipe_.rollout.engine == train::EngineKind::kLocal || recipe_.sft(); }

  static const std::vector<std::int32_t>& teachers_prompt(const Prompt& prompt) {
    return prompt.teacher_ids.empty() ? prompt.ids : prompt.teacher_ids;
  }

  // Of the teacher that needs the most while it reads; they read in turn.
  std::int64_t scoring_bytes(const engine::LocalOptions& engine) const {
    std::int64_t most = 0;
    for (std::size_t t = 0; t < teachers_.size(); ++t) {
      if (weight_bytes_T_[t] == 0) continue;
      std::int64_t longest = 0;
      for (const Prompt& prompt : prompts_)
        if (prompt.teacher == static_cast<std::int32_t>(t))
          longest = std::max<std::int64_t>(longest, std::ssize(teachers_prompt(prompt)));
      const std::int64_t tokens =
          std::max<std::int64_t>(engine.score_tokens, longest + recipe_.rollout.max_new_tokens);
      most = std::max(most, engine::blocks_for(tokens) * model::KvStorage::block_bytes(teachers_[t]));
    }
    return most;
  }

  // The exact coupling and the union KLs keep the union of both top-k at every state.
  void support() {
    const std::int64_t ids = recipe_.objective.k == routing::kFullSupport
                                 ? real_ids_
                                 : std::min<std::int64_t>(2 * std::int64_t{recipe_.objective.k}, real_ids_);
    add("support", times(plan_.response_tokens, 2 * Support::kBytesPerId * ids),
        fmt::format("up to {} ids per state, twice while it is built", grouped(ids)));
  }

  void learner() {
    const std::int64_t longest =
        plan_.longest_prompt + (recipe_.sft() ? longest_given_ : recipe_.rollout.max_new_tokens);
    const std::int64_t tokens = std::max(
        longest, std::min(recipe_.train.micro_tokens, plan_.learner_tokens / recipe_.train.minibatches));
    const std::int64_t bytes = recipe_.student.dtype == train::Dtype::kBfloat16 ? 2 : kFloat;
    const std::int64_t layers = student_.num_hidden_layers;
    const std::int64_t floats = recipe_.train.recompute
                                    ? layers * student_.hidden_size + 2 * model::activation_floats(student_)
                                    : layers * model::activation_floats(student_);
    add_learner(
        "activations", times(tokens, floats * bytes),
        fmt::format("of {} tokens{}", grouped(tokens), recipe_.train.recompute ? ", recomputed" : ""));
    const bool dense = objective::make_objective(recipe_.objective)->dense();
    if (dense || recipe_.objective.k == routing::kFullSupport)
      add_learner("logits", 2 * model::kDenseChunk * student_.vocab_size * kFloat,
                  fmt::format("of {} states at a time", model::kDenseChunk));
    if (on_device()) learner_on_device(tokens, dense);
  }

  // What the CPU's kernels do without: temporaries of the heads in ATen operations, and copies of what the
  // host has.
  void learner_on_device(std::int64_t tokens, bool dense) {
    const std::int64_t hidden = student_.hidden_size;
    if (dense) {  // logits, their logarithms and probabilities, and the widened rows of a bfloat16 head
      add_learner("logits, in operations", 4 * model::kDenseChunk * student_.vocab_size * kFloat,
                  "between the operations of a loss");
    } else {
      add_learner("rows of the head", 4 * model::aten_block_rows(hidden) * hidden * kFloat,
                  "gathered a block at a time");
    }
    const bool whole = recipe_.objective.loss == routing::Loss::kFullRkl ||
                       recipe_.objective.loss == routing::Loss::kFullFkl;
    if (whole) {
      const formats::ModelConfig& teacher = teachers_.front();
      add_learner("teacher's head", times(teacher.vocab_size, teacher.hidden_size * kFloat), "float32");
      add_learner("teacher's hidden states", times(tokens, teacher.hidden_size * kFloat),
                  fmt::format("of {} tokens", grouped(tokens)));
    }
    if (recipe_.rollout.student_values == train::StudentValues::kLearner)
      add_learner("learner's values", times(tokens, 6 * kFloat * kernels::tile_width(real_ids_)),
                  "logits of a tile of ids, sorted");
  }

  // Evaluations and probes on the way.
  void measurements() {
    const bool probes = recipe_.probe.every > 0;
    if (recipe_.eval.every > 0 || probes)
      add("student, while measured", panel_bytes(student_, kFloat), "for evaluations and probes");
    if (!probes) return;
    if (!recipe_.probe.bank.empty()) {
      add("probe", 2 * kFloat * plan_.student_parameters, "a copy to try updates on, and gradients");
      return;
    }
    const std::int64_t visited =
        times(std::min(kProbePrompts, plan_.prompts), recipe_.rollout.max_new_tokens);
    add("probe",
        times(visited,
              probe::MismatchBank::bytes_per_state(recipe_.objective, real_ids_, student_.hidden_size)),
        fmt::format("{} states that {} prompts visit, at the longest responses", grouped(visited),
                    std::min(kProbePrompts, plan_.prompts)));
  }

  const train::Recipe& recipe_;
  const formats::ModelConfig& student_;
  const std::vector<formats::ModelConfig>& teachers_;
  std::vector<train::RunTeacher> named_;
  std::vector<std::int64_t> weight_bytes_T_;  // per weight of the engine's copy; 0: it is on a server
  std::int32_t real_ids_;
  const std::vector<Prompt>& prompts_;
  std::int64_t longest_given_ = 0;  // response of the sft arm
  Plan plan_;
};

}  // namespace

namespace {

std::int64_t sum_of(const std::vector<MemoryPart>& parts) {
  std::int64_t sum = 0;
  for (const MemoryPart& part : parts) sum = std::min(sum + part.bytes, kMostBytes);
  return sum;
}

const MemoryPart& largest_of(const std::vector<MemoryPart>& parts) {
  return *std::max_element(parts.begin(), parts.end(),
                           [](const MemoryPart& a, const MemoryPart& b) { return a.bytes < b.bytes; });
}

// `where`: " of cuda", or nothing. `smaller`: what makes the parts smaller.
std::string memory_text(const std::vector<MemoryPart>& parts, std::int64_t available,
                        const std::string& where, const char* smaller) {
  std::string text = fmt::format("\nMemory{}\n", where);
  for (const MemoryPart& part : parts)
    text += fmt::format("  {:<26}{:>10}  {}\n", part.name, byte_text(part.bytes), part.what);
  std::string verdict = "the free memory is not known";
  if (available > 0)
    verdict =
        sum_of(parts) <= available
            ? fmt::format("fits into the {} that are free", byte_text(available))
            : fmt::format("exceeds the {} that are free: train refuses without --allow-overcommit; try {}",
                          byte_text(available), smaller);
  return text + fmt::format("  {:<26}{:>10}  {}\n", "together", byte_text(sum_of(parts)), verdict);
}

Json memory_json(const std::vector<MemoryPart>& parts) {
  Json memory = Json::object();
  for (const MemoryPart& part : parts) memory[part.name] = part.bytes;
  return memory;
}

}  // namespace

std::int64_t Plan::total_bytes() const {
  return sum_of(memory);
}

std::int64_t Plan::device_total_bytes() const {
  return sum_of(device_memory);
}

Plan plan_run(const train::Recipe& recipe, const train::RunPrompts& prompts) {
  return Planner(recipe, prompts).make();
}

void check_memory(const Plan& plan) {
  if (plan.fits()) return;
  if (!plan.fits_device()) {
    const MemoryPart& largest = largest_of(plan.device_memory);
    throw UserError(
        "the learner needs {} of its device's memory with every response at its longest, {} of it for {}, "
        "and "
        "{} are free; --dry-run lists the parts and what makes them smaller, --allow-overcommit begins all "
        "the "
        "same",
        byte_text(plan.device_total_bytes()), byte_text(largest.bytes), largest.name,
        byte_text(plan.device_available_bytes));
  }
  const MemoryPart& largest = largest_of(plan.memory);
  throw UserError(
      "the run needs {} of memory with every response at its longest, {} of it for {}, and {} are free; "
      "--dry-run lists the parts and what makes them smaller, --allow-overcommit begins all the same",
      byte_text(plan.total_bytes()), byte_text(largest.bytes), largest.name, byte_text(plan.available_bytes));
}

std::string plan_text(const Plan& plan, const train::Recipe& recipe) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<28}{}\n", name, value);
  };
  line("student", fmt::format("{} ({} parameters)", recipe.student.path, grouped(plan.student_parameters)));
  for (const PlannedTeacher& teacher : plan.teachers)
    line(teacher.section.c_str(),
         fmt::format("{} ({} parameters)", teacher.path, grouped(teacher.parameters)));
  line("prompts", fmt::format("{}{}; {:.0f} tokens on average, {} at most", grouped(plan.prompts),
                              plan.too_long > 0 ? fmt::format(" ({} more are too long)", plan.too_long) : "",
                              plan.prompt_tokens, grouped(plan.longest_prompt)));
  line("run", fmt::format("{} steps, {} updates, {:.2f} passes over the prompts", grouped(plan.steps),
                          grouped(plan.updates), plan.passes));
  text += "\nPer step, with every response at its longest\n";
  line("  responses", fmt::format("{} of {} tokens", grouped(plan.responses),
                                  grouped(plan.response_tokens / std::max<std::int64_t>(1, plan.responses))));
  if (plan.teacher_calls > 0)
    line("  the teacher reads", fmt::format("{} responses, {} tokens, prompts once each",
                                            grouped(plan.teacher_calls), grouped(plan.teacher_tokens)));
  line("  the learner reads", fmt::format("{} tokens per pass, in at least {} micro-batches",
                                          grouped(plan.learner_tokens), grouped(plan.micro_batches)));
  const bool device = !plan.device_memory.empty();
  text +=
      memory_text(plan.memory, plan.available_bytes, device ? " of the host" : "",
                  "smaller [rollout] max_new_tokens or prompts_per_step, a smaller [objective] k or [train] "
                  "micro_tokens, or recompute = true");
  text += fmt::format("  {:<26}{:>10}  with the {} that the program takes already\n",
                      "the process at its peak", byte_text(plan.peak_bytes()), byte_text(plan.program_bytes));
  if (device)
    text +=
        memory_text(plan.device_memory, plan.device_available_bytes, " of " + recipe.student.device,
                    "a smaller [train] micro_tokens, recompute = true, or [student] dtype = \"bfloat16\"");
  if (!plan.contamination_warning.empty()) text += fmt::format("\nWarning: {}\n", plan.contamination_warning);
  return text;
}

Json plan_json(const Plan& plan) {
  Json warnings = Json::array();
  if (!plan.contamination_warning.empty()) warnings.push_back(plan.contamination_warning);
  return {{"student_parameters", plan.student_parameters},
          {"teacher_parameters", plan.teacher_parameters},
          {"prompts", plan.prompts},
          {"prompts_too_long", plan.too_long},
          {"prompt_tokens", plan.prompt_tokens},
          {"longest_prompt", plan.longest_prompt},
          {"warnings", warnings},
          {"steps", plan.steps},
          {"updates", plan.updates},
          {"passes", plan.passes},
          {"responses", plan.responses},
          {"response_tokens", plan.response_tokens},
          {"teacher_calls", plan.teacher_calls},
          {"teacher_tokens", plan.teacher_tokens},
          {"learner_tokens", plan.learner_tokens},
          {"micro_batches", plan.micro_batches},
          {"memory", memory_json(plan.memory)},
          {"total_bytes", plan.total_bytes()},
          {"available_bytes", plan.available_bytes},
          {"peak_bytes", plan.peak_bytes()},
          {"device_memory", memory_json(plan.device_memory)},
          {"device_total_bytes", plan.device_total_bytes()},
          {"device_available_bytes", plan.device_available_bytes},
          {"fits", plan.fits()}};
}

}  // namespace routeopd::run
