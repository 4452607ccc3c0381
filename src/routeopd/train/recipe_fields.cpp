// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/recipe_fields.h"

#include <algorithm>
#include <utility>

namespace routeopd::train {
namespace {

const Range kPositive{.low = 0, .low_open = true};
const Range kFraction{.low = 0, .high = 1};

Range whole_from(double low, double high = 1e9) {
  return {.low = low, .high = high};
}

// The fields of ServersSection, as those of a section that has it.
template <class S>
Fields<S> with_servers(Fields<S> fields) {
  const auto member = []<class T>(T ServersSection::* inner) { return static_cast<T S::*>(inner); };
  fields.push_back(choice_field("engine", member(&ServersSection::engine), "who computes (docs/engines.md)",
                                Choices<EngineKind>{{"local", EngineKind::kLocal},
                                                    {"serve", EngineKind::kServe},
                                                    {"vllm", EngineKind::kVllm},
                                                    {"sglang", EngineKind::kSglang}}));
  fields.push_back({"urls", "addresses of the servers, such as [\"http://127.0.0.1:8000\"]",
                    [](S& section, const Json& value) {
                      if (!value.is_array() || !std::all_of(value.begin(), value.end(),
                                                            [](const Json& url) { return url.is_string(); }))
                        throw UserError("expected a list of addresses, got {}", shown(value));
                      section.urls = value.get<std::vector<std::string>>();
                    },
                    [](const S& section) { return Json(section.urls); }});
  fields.push_back(text_field("api_key_env", member(&ServersSection::api_key_env),
                              "environment variable that holds the servers' key; empty: none"));
  fields.push_back(number_field("patience", member(&ServersSection::patience),
                                "seconds to wait while no server answers, before the run stops",
                                Range{.low = 0, .high = 1e7}));
  fields.push_back(number_field("request_seconds", member(&ServersSection::request_seconds),
                                "deadline of one request, after which it is asked again",
                                Range{.low = 0, .high = 1e6, .low_open = true}));
  fields.push_back(number_field("requests", member(&ServersSection::requests),
                                "most requests in flight at a server", whole_from(1, 1024)));
  return fields;
}

Fields<StudentSection> student_fields() {
  using S = StudentSection;
  return {
      text_field("path", &S::path, "Hugging Face directory of the student"),
      choice_field("dtype", &S::dtype, "of the learner's forward, over float32 weights; auto is float32",
                   Choices<Dtype>{
                       {"auto", Dtype::kAuto}, {"float32", Dtype::kFloat32}, {"bfloat16", Dtype::kBfloat16}}),
      text_field("device", &S::device, "of the learner: cpu | cuda | cuda:N (docs/devices.md)")};
}

Fields<TeacherSection> teacher_fields() {
  return with_servers<TeacherSection>(
      {text_field("path", &TeacherSection::path,
                  "Hugging Face directory of the teacher; of a server's, config.json and tokenizer files "
                  "suffice; the sft arm has none")});
}

Fields<DataSection> data_fields() {
  using S = DataSection;
  return {text_field("prompts", &S::prompts, "prompts, JSONL; the sft arm needs a response in each"),
          text_field("template", &S::prompt_template,
                     "how a problem becomes a prompt: chat | raw | a text with {problem}"),
          switch_field("shuffle", &S::shuffle, "shuffle the prompts by the seed; false: the file's order")};
}

Fields<RolloutSection> rollout_fields() {
  using S = RolloutSection;
  return with_servers<S>(
      {number_field("prompts_per_step", &S::prompts_per_step, "prompts per step", whole_from(1, 1 << 24)),
       number_field("n", &S::n, "responses per prompt", whole_from(1, 256)),
       number_field("temperature", &S::temperature, "of sampling", kPositive),
       number_field("top_p", &S::top_p, "sample from the most likely ids that together have this probability",
                    Range{.low = 0, .high = 1, .low_open = true}),
       number_field("max_new_tokens", &S::max_new_tokens, "longest response", whole_from(1)),
       number_field(
           "kv_memory", &S::kv_memory,
           "gigabytes for keys and values while responses are generated; 0: a quarter of the free memory",
           Range{.low = 0, .high = 1e6}),
       choice_field("old_scores", &S::old_scores,
                    "old values: captured while decoding, computed again by the engine, or the learner's own "
                    "before its first update; auto: capture with our engine in float32, else learner",
                    Choices<OldScores>{{"auto", OldScores::kAuto},
                                       {"capture", OldScores::kCapture},
                                       {"rescore", OldScores::kRescore},
                                       {"learner", OldScores::kLearner}}),
       choice_field(
           "student_values", &S::student_values,
           "whose forward gives the student's top-k and probabilities for the routes; learner: one "
           "more forward, without gradients",
           Choices<StudentValues>{{"engine", StudentValues::kEngine}, {"learner", StudentValues::kLearner}}),
       choice_field("rollout_correction", &S::rollout_correction,
                    "sampled_rkl: truncate weighs each state by the learner's over the engine's probability "
                    "of its token, at most 2",
                    Choices<RolloutCorrection>{{"none", RolloutCorrection::kNone},
                                               {"truncate", RolloutCorrection::kTruncate}}),
       text_field(
           "weights", &S::weights,
           "directory that the rollout's servers see too, for the student's weights; empty: OUT/weights")});
}

Fields<OptimizerSection> optimizer_fields() {
  using S = OptimizerSection;
  return {number_field("lr", &S::lr, "peak learning rate", kPositive),
          {"betas", "decay of the two moments",
           [](S& section, const Json& value) {
             if (!value.is_array() || value.size() != 2)
               throw UserError("expected two numbers, got {}", shown(value));
             const Range beta{.low = 0, .high = 0.9999999};
             section.beta1 = number_in(value[0], beta);
             section.beta2 = number_in(value[1], beta);
           },
           [](const S& section) { return Json::array({section.beta1, section.beta2}); }},
          number_field("eps", &S::eps, "added to the root of the second moment", kPositive),
          number_field("weight_decay", &S::weight_decay, "decoupled, on all parameters", Range{.low = 0}),
          number_field("clip", &S::clip, "largest global norm of the gradient; 0: off", Range{.low = 0}),
          choice_field("schedule", &S::schedule, "of the learning rate after the warm-up",
                       Choices<ScheduleKind>{{"cosine", ScheduleKind::kCosine},
                                             {"constant", ScheduleKind::kConstant}}),
          number_field("warmup", &S::warmup, "share of the updates that warm up", kFraction)};
}

Fields<TrainSection> train_fields() {
  using S = TrainSection;
  return {
      number_field("steps", &S::steps, "rollout batches", whole_from(1)),
      number_field("minibatches", &S::minibatches, "optimizer batches per rollout batch",
                   whole_from(1, 65536)),
      number_field("epochs", &S::epochs, "passes over a rollout batch", whole_from(1, 1024)),
      number_field("micro_tokens", &S::micro_tokens, "most tokens per forward and backward", whole_from(1)),
      switch_field("recompute", &S::recompute,
                   "recompute a block's activations for its gradient: less memory, one more forward"),
      switch_field("rollouts", &S::rollouts, "keep every response in rollouts.jsonl"),
      switch_field(
          "diagnostics", &S::diagnostics,
          "top-k and routes for the metrics, where the arm's loss reads none (sampled_rkl, full_rkl, "
          "full_fkl); false: the tokens taken are scored alone, to the same updates"),
      number_field("max_bad_steps", &S::max_bad_steps,
                   "steps in a row without an update, because nothing finite was there to learn from, "
                   "after which the run stops",
                   whole_from(0))};
}

Fields<CheckpointSection> checkpoint_fields() {
  using S = CheckpointSection;
  return {number_field("every", &S::every, "steps between checkpoints; 0: at the end only", whole_from(0)),
          number_field("keep", &S::keep, "checkpoints to keep; 0: all", whole_from(0, 1e6))};
}

Fields<EvalSection> eval_fields() {
  using S = EvalSection;
  return {
      number_field("every", &S::every, "steps between evaluations; 0: none", whole_from(0)),
      {"suites", "problems with answers: { name = \"file.jsonl\" }",
       [](S& section, const Json& value) {
         section.suites.clear();
         if (!value.is_object()) throw UserError("expected {{ name = \"file\" }}, got {}", shown(value));
         for (const auto& [name, file] : value.items()) {
           if (!file.is_string()) throw UserError("expected a file for {}, got {}", name, shown(file));
           section.suites[name] = file.get<std::string>();
         }
       },
       [](const S& section) { return Json(section.suites); }},
      number_field("n", &S::n, "samples per problem", whole_from(1, 256)),
      number_field("temperature", &S::temperature, "of sampling; 0 is greedy", Range{.low = 0}),
      number_field("top_p", &S::top_p, "sample from the most likely ids that together have this probability",
                   Range{.low = 0, .high = 1, .low_open = true}),
      number_field("max_new_tokens", &S::max_new_tokens, "longest response", whole_from(1))};
}

Fields<ProbeSection> probe_fields() {
  using S = ProbeSection;
  return {
      number_field("every", &S::every,
                   "steps between probes of fixed states of the starting student; 0: none", whole_from(0)),
      text_field("bank", &S::bank,
                 "a file of `routeopd probe make`: fidelity, leakage and mismatch mass on its states; empty: "
                 "the mass alone, on states chosen here"),
      number_field("states", &S::states, "number of fixed states where there is no bank",
                   whole_from(1, 1 << 20))};
}

template <class Part>
RecipeSection section(std::string name, Part Recipe::* part, const Fields<Part>& fields) {
  RecipeSection lifted{std::move(name), {}};
  for (const Field<Part>& field : fields) {
    lifted.fields.push_back(
        {field.name, field.help,
         [part, set = field.set](Recipe& recipe, const Json& value) { set(recipe.*part, value); },
         [part, get = field.get](const Recipe& recipe) { return get(recipe.*part); }});
  }
  return lifted;
}

RecipeSection top_section() {
  return {
      "",
      {number_field("seed", &Recipe::seed, "of every random number of the run", whole_from(0, 0x1p53 - 1)),
       text_field("out", &Recipe::out, "run directory; must not exist")}};
}

}  // namespace

RecipeSection teachers_section() {
  return {"teachers",
          {text_field("default", &Recipe::default_teacher,
                      "teacher of the prompts that name none; empty: each names one")}};
}

RecipeSection teacher_section(const std::string& name) {
  RecipeSection lifted{"teachers." + name, {}};
  for (const Field<TeacherSection>& field : teacher_fields()) {
    lifted.fields.push_back(
        {field.name, field.help,
         [name, set = field.set](Recipe& recipe, const Json& value) { set(recipe.teachers[name], value); },
         [name, get = field.get](const Recipe& recipe) {
           const auto found = recipe.teachers.find(name);
           return get(found == recipe.teachers.end() ? TeacherSection{} : found->second);
         }});
  }
  return lifted;
}

const std::vector<RecipeSection>& recipe_sections() {
  static const std::vector<RecipeSection> all = {
      top_section(),
      section("student", &Recipe::student, student_fields()),
      section("teacher", &Recipe::teacher, teacher_fields()),
      section("data", &Recipe::data, data_fields()),
      section("rollout", &Recipe::rollout, rollout_fields()),
      section("objective", &Recipe::objective, routing::objective_fields()),
      section("optimizer", &Recipe::optimizer, optimizer_fields()),
      section("train", &Recipe::train, train_fields()),
      section("checkpoint", &Recipe::checkpoint, checkpoint_fields()),
      section("eval", &Recipe::eval, eval_fields()),
      section("probe", &Recipe::probe, probe_fields())};
  return all;
}

}  // namespace routeopd::train
