//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/plan.h"

#include <algorithm>
#include <numeric>

#include "routeopd/base/display.h"
#include "routeopd/base/system.h"
#include "routeopd/engine/kv_plan.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/formats/weight_table.h"
#include "routeopd/model/decoder.h"
#include "routeopd/model/heads/dense_head.h"
#include "routeopd/model/inference/kv_storage.h"
#include "routeopd/model/model_files.h"
#include "routeopd/objective/objective.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::train {
namespace {

constexpr std::int64_t kFloat = 4;

// Products of a recipe's numbers stop at an exabyte: enough to say that it does not fit.
std::int64_t times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = 1'000'000'000'000'000'000;
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : std::min(product, kMost);
}

// The engine's copy: every matrix in panels, the head among them, but no embedding.
std::int64_t panel_bytes(const formats::ModelConfig& config, std::int64_t bytes_a_weight) {
  const std::int64_t table = config.vocab_size * config.hidden_size;
  return bytes_a_weight * (formats::parameter_count(config) - (config.tie_word_embeddings ? 0 : table));
}

class Planner {
 public:
  Planner(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer) : recipe_(recipe) {
    student_ = formats::read_model_config(recipe.student.path);
    model::describe_weights(recipe.student.path);
    if (!recipe.sft()) {
      check_same_tokens(recipe.student.path, recipe.teacher.path);
      teacher_ = formats::read_model_config(recipe.teacher.path);
      const auto types = model::describe_weights(recipe.teacher.path).types;
      teacher_weight_bytes_ = types.size() == 1 && types.begin()->first == "BF16" ? 2 : kFloat;
    }
    const formats::ModelConfig* const teacher = teacher_ ? &*teacher_ : nullptr;
    prompts_ = read_prompts(recipe, tokenizer, student_, teacher, plan_.too_long);
    check_prompts(recipe, prompts_, plan_.too_long, tokenizer.real_ids(), student_, teacher);
    plan_.unchecked = contamination_of(recipe);
  }

  Plan make() {
    count();
    weights();
    rollout();
    learner();
    plan_.available_bytes = available_bytes();
    return plan_;
  }

 private:
  void add(std::string name, std::int64_t bytes, std::string what) {
    if (bytes > 0) plan_.memory.push_back({std::move(name), bytes, std::move(what)});
  }

  void count() {
    plan_.student_parameters = formats::parameter_count(student_);
    plan_.teacher_parameters = teacher_ ? formats::parameter_count(*teacher_) : 0;
    plan_.prompts = std::ssize(prompts_);
    std::int64_t all = 0, responses = 0;
    for (const Prompt& prompt : prompts_) {
      all += std::ssize(prompt.ids);
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
    if (teacher_) {
      plan_.teacher_calls = plan_.responses;
      plan_.teacher_tokens = plan_.learner_tokens;
    }
    plan_.micro_batches = std::max<std::int64_t>(
        recipe_.train.minibatches,
        (plan_.learner_tokens + recipe_.train.micro_tokens - 1) / recipe_.train.micro_tokens);
    plan_.updates = recipe_.updates();
  }

  void weights() {
    const bool rounded = recipe_.student.dtype == Dtype::kBfloat16;
    add("student", kFloat * plan_.student_parameters, "weights, float32");
    add("student, for the engine", panel_bytes(student_, rounded ? 2 : kFloat), "laid out in panels");
    if (teacher_) {
      add("teacher", kFloat * plan_.teacher_parameters, "weights, float32");
      add("teacher, for the engine", panel_bytes(*teacher_, teacher_weight_bytes_), "laid out in panels");
    }
    add("gradients", kFloat * plan_.student_parameters, "float32");
    add("AdamW", 2 * kFloat * plan_.student_parameters, "two moments, float32");
    if (rounded)
      add("student, bfloat16", 4 * plan_.student_parameters, "weights of the forward, their gradients");
  }

  void rollout() {
    const routing::ObjectiveOptions& objective = recipe_.objective;
    if (!teacher_) return;
    std::vector<Prompt> longest = prompts_;
    const auto step = std::min<std::int64_t>(recipe_.rollout.prompts_per_step, plan_.prompts);
    std::partial_sort(longest.begin(), longest.begin() + step, longest.end(),
                      [](const Prompt& a, const Prompt& b) { return a.ids.size() > b.ids.size(); });
    longest.resize(static_cast<std::size_t>(step));
    const engine::LocalOptions engine;
    const auto kv = engine::plan_kv(
        student_, longest, {.n = recipe_.rollout.n, .max_new_tokens = recipe_.rollout.max_new_tokens},
        static_cast<std::int64_t>(recipe_.rollout.kv_memory * 1e9), engine.step_tokens);
    add("keys and values, rollout", kv.bytes(),
        fmt::format("{} blocks of {} positions; [rollout] kv_memory bounds them", grouped(kv.blocks),
                    kernels::kBlockPositions));
    const std::int64_t scoring =
        std::max<std::int64_t>(engine.score_tokens, plan_.longest_prompt + recipe_.rollout.max_new_tokens);
    add("keys and values, scoring", engine::blocks_for(scoring) * model::KvStorage::block_bytes(*teacher_),
        "the teacher's");
    const std::int64_t k = capture_options(objective).k;
    add("captured states", times(plan_.response_tokens, student_.hidden_size * kFloat + k * 32),
        "hidden states and both models' top k, at the longest responses");
    if (needs_teacher_hidden(objective))
      add("the teacher's hidden states", times(plan_.response_tokens, teacher_->hidden_size * kFloat), "");
  }

  void learner() {
    const std::int64_t longest =
        plan_.longest_prompt + (recipe_.sft() ? longest_given_ : recipe_.rollout.max_new_tokens);
    const std::int64_t tokens = std::max(
        longest, std::min(recipe_.train.micro_tokens, plan_.learner_tokens / recipe_.train.minibatches));
    const std::int64_t bytes = recipe_.student.dtype == Dtype::kBfloat16 ? 2 : kFloat;
    const std::int64_t layers = student_.num_hidden_layers;
    const std::int64_t floats = recipe_.train.recompute
                                    ? layers * student_.hidden_size + 2 * model::activation_floats(student_)
                                    : layers * model::activation_floats(student_);
    add("activations", times(tokens, floats * bytes),
        fmt::format("of {} tokens{}", grouped(tokens), recipe_.train.recompute ? ", recomputed" : ""));
    if (objective::make_objective(recipe_.objective)->dense())
      add("logits", 2 * model::kDenseChunk * student_.vocab_size * kFloat,
          fmt::format("of {} states at a time", model::kDenseChunk));
  }

  const Recipe& recipe_;
  formats::ModelConfig student_;
  std::optional<formats::ModelConfig> teacher_;
  std::int64_t teacher_weight_bytes_ = kFloat;
  std::vector<Prompt> prompts_;
  std::int64_t longest_given_ = 0;  // response of the sft arm
  Plan plan_;
};

}  // namespace

std::int64_t Plan::total_bytes() const {
  return std::accumulate(memory.begin(), memory.end(), std::int64_t{0},
                         [](std::int64_t sum, const MemoryPart& part) { return sum + part.bytes; });
}

Plan plan_run(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer) {
  return Planner(recipe, tokenizer).make();
}

std::string plan_text(const Plan& plan, const Recipe& recipe) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<28}{}\n", name, value);
  };
  line("student", fmt::format("{} ({} parameters)", recipe.student.path, grouped(plan.student_parameters)));
  if (plan.teacher_parameters > 0)
    line("teacher", fmt::format("{} ({} parameters)", recipe.teacher.path, grouped(plan.teacher_parameters)));
  line("prompts", fmt::format("{}{}; {:.0f} tokens on average, {} at most", grouped(plan.prompts),
                              plan.too_long > 0 ? fmt::format(" ({} more are too long)", plan.too_long) : "",
                              plan.prompt_tokens, grouped(plan.longest_prompt)));
  line("run", fmt::format("{} steps, {} updates, {:.2f} passes over the prompts", grouped(plan.steps),
                          grouped(plan.updates), plan.passes));
  text += "\nA step, with every response at its longest\n";
  line("  responses", fmt::format("{} of {} tokens", grouped(plan.responses),
                                  grouped(plan.response_tokens / std::max<std::int64_t>(1, plan.responses))));
  if (plan.teacher_calls > 0)
    line("  the teacher reads", fmt::format("{} responses, {} tokens, prompts once each",
                                            grouped(plan.teacher_calls), grouped(plan.teacher_tokens)));
  line("  the learner reads", fmt::format("{} tokens a pass, in at least {} micro-batches",
                                          grouped(plan.learner_tokens), grouped(plan.micro_batches)));
  text += "\nMemory\n";
  for (const MemoryPart& part : plan.memory)
    text += fmt::format("  {:<26}{:>10}  {}\n", part.name, byte_text(part.bytes), part.what);
  text += fmt::format(
      "  {:<26}{:>10}  {}\n", "together", byte_text(plan.total_bytes()),
      plan.fits() ? fmt::format("fits into the {} that are free", byte_text(plan.available_bytes))
                  : fmt::format("exceeds the {} that are free; try smaller [rollout] max_new_tokens or "
                                "prompts_per_step, a smaller [train] micro_tokens, or recompute = true",
                                byte_text(plan.available_bytes)));
  if (!plan.unchecked.empty()) text += fmt::format("\nWarning: {}\n", plan.unchecked);
  return text;
}

Json plan_json(const Plan& plan) {
  Json memory = Json::object();
  for (const MemoryPart& part : plan.memory) memory[part.name] = part.bytes;
  return {{"student_parameters", plan.student_parameters},
          {"teacher_parameters", plan.teacher_parameters},
          {"prompts", plan.prompts},
          {"prompts_too_long", plan.too_long},
          {"prompt_tokens", plan.prompt_tokens},
          {"longest_prompt", plan.longest_prompt},
          {"warnings", plan.unchecked.empty() ? Json::array() : Json::array({plan.unchecked})},
          {"steps", plan.steps},
          {"updates", plan.updates},
          {"passes", plan.passes},
          {"responses", plan.responses},
          {"response_tokens", plan.response_tokens},
          {"teacher_calls", plan.teacher_calls},
          {"teacher_tokens", plan.teacher_tokens},
          {"learner_tokens", plan.learner_tokens},
          {"micro_batches", plan.micro_batches},
          {"memory", memory},
          {"total_bytes", plan.total_bytes()},
          {"available_bytes", plan.available_bytes},
          {"fits", plan.fits()}};
}

}  // namespace routeopd::train
