// Runs on engines that are not the local one: they train from end to end, their wrong answers are counted and
// learnt from by nobody, and an arm that they cannot serve is refused before anything runs.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/engines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "engine/scripted_engine.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/eval/evaluate.h"
#include "routeopd/probe/explain.h"
#include "routeopd/probe/mismatch.h"
#include "routeopd/train/stages.h"
#include "run_testing.h"

namespace routeopd::train {
namespace {

namespace fs = std::filesystem;
using engine::Answer;
using engine::ScriptedEngine;
using engine::ServedEngine;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int32_t kIds = 90;

// The student's weights learn; what it writes and what the teacher says of it is scripted.
struct Script {
  std::unique_ptr<ScriptedEngine> student = std::make_unique<ScriptedEngine>(kIds, 11);
  std::unique_ptr<ScriptedEngine> teacher = std::make_unique<ScriptedEngine>(kIds, 12);
  ScriptedEngine &writes = *student, &scores = *teacher;

  Engines engines() { return {.student = std::move(student), .teachers = one_teacher(std::move(teacher))}; }
};

Inputs scripted_inputs(const Recipe& recipe) {
  Inputs inputs = tiny_inputs(recipe);
  inputs.teachers.front().model.reset();  // its weights are nowhere
  return inputs;
}

class ScriptedRun : public ::testing::TestWithParam<const char*> {};

TEST_P(ScriptedRun, TrainsFromEndToEndAndTwiceTheSame) {
  const TemporaryDirectory directory;
  for (const char* name : {"a", "b"}) {
    const Recipe recipe = tiny_recipe(directory.path() / name, GetParam());
    Inputs inputs = scripted_inputs(recipe);
    Script script;
    ScriptedEngine &writes = script.writes, &scores = script.scores;
    std::int64_t refreshed = 0, written = 0, read = 0;
    train(recipe, inputs, script.engines(), [&](const auto&...) {
      refreshed = writes.refreshed;
      written = writes.written;
      read = scores.read;
    });
    EXPECT_EQ(written, 4);
    EXPECT_EQ(read, 4) << "one teacher pass per step";
    EXPECT_EQ(refreshed, 4) << "new weights after every step";
    for (const Json& step : metrics_of(recipe.out)) {
      EXPECT_EQ(step["validity"]["valid"], step["tokens"]);
      EXPECT_TRUE(step["loss"].is_number());
      EXPECT_TRUE(step["policy_entropy"].is_null()) << "this engine does not give it";
      EXPECT_EQ(step["skipped_updates"], 0);
      EXPECT_EQ(step["teacher_calls"], 8);
      EXPECT_GT(step["mass"].get<double>(), 0.1);
    }
    EXPECT_FALSE(at::equal(inputs.student.embed_VH.detach(), model::load_model(tiny("student")).embed_VH))
        << "nothing was learnt";
  }
  const fs::path a = directory.path() / "a", b = directory.path() / "b";
  EXPECT_EQ(metrics_of(a), metrics_of(b));
  EXPECT_EQ(bytes_in(a / "checkpoints/step_4/model.safetensors"),
            bytes_in(b / "checkpoints/step_4/model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Arms, ScriptedRun,
                         ::testing::Values("routeopd", "sampled_rkl", "union_rkl", "rank_matched",
                                           "source_only"),
                         [](const auto& arm) { return std::string(arm.param); });

// In every answer the teacher cuts one response short, reads another one otherwise, names an id that is none,
// and gives no number at one token.
void spoil(Answer& answer, const Rollout& rollout) {
  const auto state = [&](std::size_t response) {
    return static_cast<std::size_t>(rollout.responses_B[response].first_state);
  };
  const auto k = static_cast<std::size_t>(answer.values.columns);
  answer.id_N[state(1)] = (answer.id_N[state(1)] + 1) % kIds;
  answer.values.top_ids_NK[state(2) * k] = kIds + 3;
  answer.values.top_ids_NK[state(3) * k + 1] = -7;
  answer.values.logsumexp_N[state(4)] = std::nanf("");
  answer.values.top_logits_NK[state(5) * k] = std::numeric_limits<float>::infinity();
  const Response& last = rollout.responses_B.back();
  answer.rows_B.back() -= 1;
  answer.id_N.pop_back();
  answer.values.logsumexp_N.pop_back();
  answer.values.top_ids_NK.resize(answer.values.top_ids_NK.size() - k);
  answer.values.top_logits_NK.resize(answer.values.top_logits_NK.size() - k);
  const auto gathered = answer.values.gathered_NG.size() / static_cast<std::size_t>(rollout.states());
  answer.values.gathered_NG.resize(answer.values.gathered_NG.size() - gathered);
  ASSERT_GE(last.length, 1);
}

TEST(WrongAnswers, AreCountedAndTheRestIsLearnt) {
  const TemporaryDirectory directory;
  for (const char* arm : {"routeopd", "sampled_rkl", "union_fkl", "random_background"}) {
    const Recipe recipe = tiny_recipe(directory.path() / arm, arm);
    Inputs inputs = scripted_inputs(recipe);
    Script script;
    script.scores.spoil_answer = spoil;
    train(recipe, inputs, script.engines());
    for (const Json& step : metrics_of(recipe.out)) {
      const Json& validity = step["validity"];
      EXPECT_EQ(validity.value("truncated_scores", 0), 1) << arm;
      EXPECT_GE(validity.value("misaligned", 0), 3) << arm;
      EXPECT_EQ(validity.value("non_finite", 0), 2) << arm;
      EXPECT_GT(validity["valid"].get<int>(), 8) << arm;
      std::int64_t all = -validity["not_routed"].get<std::int64_t>();
      for (const auto& count : validity) all += count.get<std::int64_t>();
      EXPECT_EQ(all, step["tokens"].get<std::int64_t>()) << "every state has one reason";
      EXPECT_TRUE(step["loss"].is_number()) << arm;
      EXPECT_EQ(step["skipped_updates"], 0) << arm;
    }
    for (const model::Parameter& parameter : model::parameters(inputs.student))
      EXPECT_TRUE(parameter.tensor.isfinite().all().item<bool>()) << arm << " " << parameter.name;
    EXPECT_THAT(bytes_in(fs::path(recipe.out) / "log.txt"),
                AllOf(HasSubstr("(truncated_scores)"), HasSubstr("(misaligned)"), HasSubstr("(non_finite)")));
  }
}

// A teacher whose rows are all one token off teaches nothing: no weight moves, and the run stops with the
// reason.
TEST(WrongAnswers, AloneStopTheRun) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.train.steps = 9;
  recipe.train.max_bad_steps = 1;
  Inputs inputs = scripted_inputs(recipe);
  Script script;
  script.scores.spoil_answer = [](Answer& answer, const Rollout& rollout) {
    for (const Response& response : rollout.responses_B)
      answer.id_N[static_cast<std::size_t>(response.first_state)] = kIds;
  };
  EXPECT_THAT(error_of([&] { train(recipe, inputs, script.engines()); }),
              AllOf(HasSubstr("2 steps in a row made no update"), HasSubstr("(misaligned)")));
  EXPECT_TRUE(at::equal(inputs.student.embed_VH.detach(), model::load_model(tiny("student")).embed_VH));
}

// What contradicts itself cannot be put in its place: the run stops and names the engine; what was made
// before stays.
TEST(WrongAnswers, ThatContradictThemselvesAreNamed) {
  const TemporaryDirectory directory;
  const Recipe recipe = tiny_recipe(directory.path() / "run");
  Inputs inputs = scripted_inputs(recipe);
  Script script;
  ScriptedEngine& scores = script.scores;
  scores.spoil_answer = [&](Answer& answer, const Rollout&) {
    if (scores.read == 3) answer.values.top_logits_NK.pop_back();
  };
  EXPECT_THAT(error_of([&] { train(recipe, inputs, script.engines()); }),
              HasSubstr("engine scripted: its answer has"));
  EXPECT_EQ(metrics_of(recipe.out).size(), 2U);
  EXPECT_TRUE(fs::exists(fs::path(recipe.out) / "checkpoints/step_2"));
  const Recipe other = tiny_recipe(directory.path() / "other");
  Script again;
  again.writes.spoil_rollout = [](Rollout& rollout) { rollout.id_N[0] = kIds; };
  Inputs inputs_again = scripted_inputs(other);
  EXPECT_THAT(error_of([&] { train(other, inputs_again, again.engines()); }),
              HasSubstr("engine scripted: it wrote id 90, outside the vocabulary of 90 ids"));
}

TEST(ScriptedRuns, ResumeToTheSameBits) {
  const TemporaryDirectory directory;
  Recipe whole = tiny_recipe(directory.path() / "whole"), parts = tiny_recipe(directory.path() / "parts");
  for (Recipe* recipe : {&whole, &parts}) recipe->train.steps = 6;
  Inputs inputs = scripted_inputs(whole);
  train(whole, inputs, Script().engines());
  catch_interrupts();
  Inputs first = scripted_inputs(parts);
  std::int64_t done = 0;
  EXPECT_THROW(train(parts, first, Script().engines(),
                     [&](const auto&...) {
                       if (++done == 2) std::raise(SIGINT);
                     }),
               Interrupted);
  catch_interrupts();  // forgets that one
  Inputs second = scripted_inputs(parts);
  train(parts, second, Script().engines(), {}, Start::kResume);
  EXPECT_EQ(metrics_of(whole.out), metrics_of(parts.out));
  EXPECT_EQ(bytes_in(fs::path(whole.out) / "checkpoints/step_6/state/optimizer.safetensors"),
            bytes_in(fs::path(parts.out) / "checkpoints/step_6/state/optimizer.safetensors"));
}

TEST(Capabilities, AnArmThatNeedsHiddenStatesIsRefusedByName) {
  const TemporaryDirectory directory;
  for (const char* arm : {"full_rkl", "full_fkl"}) {
    const Recipe recipe = tiny_recipe(directory.path() / arm, arm);
    Inputs inputs = scripted_inputs(recipe);
    Script script;
    script.writes.spoil_rollout = [](Rollout&) { ADD_FAILURE() << "something ran"; };
    EXPECT_THAT(
        error_of([&] { train(recipe, inputs, script.engines()); }),
        HasSubstr(fmt::format("[objective] arm: {} needs the teacher's hidden states and LM head, which its "
                              "engine (scripted) does not give",
                              arm)));
    EXPECT_FALSE(fs::exists(recipe.out));
  }
  Recipe full = tiny_recipe(directory.path() / "full");
  full.objective.k = routing::kFullSupport;
  Inputs inputs = tiny_inputs(full);
  EXPECT_THAT(error_of([&] { train(full, inputs, Script().engines()); }),
              HasSubstr("[objective] k: \"full\" needs the teacher's hidden states"));
  Engines half = make_engines(full, inputs);
  half.student = std::make_unique<ScriptedEngine>(kIds, 3);
  EXPECT_THAT(
      error_of([&] { train(full, inputs, std::move(half)); }),
      HasSubstr("[objective] k: \"full\" needs the student's hidden states, which its engine (scripted)"));
  Engines headless = make_engines(full, inputs);
  headless.teachers.front().head_UX.reset();
  EXPECT_THAT(error_of([&] { train(full, inputs, std::move(headless)); }), HasSubstr("LM head"));
  EXPECT_FALSE(fs::exists(full.out));
}

TEST(Capabilities, EnginesOfAnotherVocabularyAreRefused) {
  const Recipe recipe = tiny_recipe("unused");
  Inputs inputs = scripted_inputs(recipe);
  Engines engines = Script().engines();
  engines.teachers = one_teacher(std::make_unique<ScriptedEngine>(kIds + 6, 2));
  EXPECT_THAT(error_of([&] { Stages(recipe, inputs, std::move(engines)); }),
              HasSubstr("[teacher]: its engine (scripted) has 96 ids, and the student's tokenizer has 90"));
  Engines alone = Script().engines();
  alone.teachers.clear();
  EXPECT_THAT(error_of([&] { Stages(recipe, inputs, std::move(alone)); }),
              HasSubstr("arm routeopd learns from a teacher, and none is there"));
}

// A teacher without weights beside a student that is here, for an arm over top-k.
TEST(Capabilities, LocalAndOtherEnginesMix) {
  const TemporaryDirectory directory;
  const Recipe recipe = tiny_recipe(directory.path() / "run");
  Inputs inputs = scripted_inputs(recipe);
  Engines engines = make_engines(recipe, inputs);
  EXPECT_EQ(engines.teachers.front().engine, nullptr);
  engines.teachers = one_teacher(std::make_unique<ScriptedEngine>(kIds, 12));
  train(recipe, inputs, std::move(engines));
  for (const Json& step : metrics_of(recipe.out)) {
    EXPECT_EQ(step["validity"]["valid"], step["tokens"]);
    EXPECT_LT(step["capture_error"].get<double>(), 1e-4) << "the student's own values are its forward's";
  }
}

// The same models behind an interface without hidden states: values at the teacher's ids come from a second
// reading, and log-probabilities stand in for logits. Routes are those of the local engine, but for draws
// within rounding of a step.
TEST(ServedPair, RoutesAreThoseOfTheLocalEngines) {
  for (const char* arm : {"routeopd", "rank_matched", "source_only"}) {
    const Recipe recipe = tiny_recipe("unused", arm);
    Inputs inputs = tiny_inputs(recipe);
    Stages local(recipe, inputs);
    Engines engines{
        .student = std::make_unique<ServedEngine>(inputs.student, kIds),
        .teachers = one_teacher(std::make_unique<ServedEngine>(*inputs.teachers.front().model, kIds))};
    Stages served(recipe, inputs, std::move(engines));
    std::vector<Routes> both;
    for (Stages* const stages : {&local, &served}) {
      Rollout rollout = stages->write(inputs.prompts, 2);
      EXPECT_EQ(rollout.hidden_NH.empty(), stages == &served);
      const Scores scores = stages->score(rollout);
      both.push_back(stages->route(rollout, scores));
    }
    ASSERT_EQ(both[0].states, both[1].states);
    EXPECT_EQ(both[0].validity_N, both[1].validity_N);
    std::size_t different = 0;
    for (std::size_t i = 0; i < both[0].source_NM.size(); ++i) {
      const bool same = both[0].source_NM[i] == both[1].source_NM[i] &&
                        both[0].destination_NM[i] == both[1].destination_NM[i];
      different += same ? 0 : 1;
      if (same) {
        EXPECT_NEAR(both[0].target_NM[i], both[1].target_NM[i], 1e-4);
        EXPECT_NEAR(both[0].old_NM[i], both[1].old_NM[i], 1e-4);
      }
    }
    EXPECT_LE(different, both[0].source_NM.size() / 100) << arm;
    EXPECT_GT(both[0].source_NM.size(), 100U);
    for (std::size_t n = 0; n < both[0].mass_N.size(); ++n) {
      EXPECT_NEAR(both[0].mass_N[n], both[1].mass_N[n], 1e-5);
      EXPECT_NEAR(both[0].student_mass_N[n], both[1].student_mass_N[n], 1e-5);
    }
  }
}

// Values that are not the learner's are told, once: a server may name weights that it does not have.
TEST(EngineGapOfARun, IsSaidWhereTheWeightsAreNotTheStudents) {
  const TemporaryDirectory directory;
  const auto lines_of = [](const Recipe& recipe) {
    const std::string log = bytes_in(fs::path(recipe.out) / "log.txt");
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = log.find("engine_gap: at ", at)) != std::string::npos; ++at) ++lines;
    return lines;
  };
  const Recipe scripted = tiny_recipe(directory.path() / "scripted"),
               local = tiny_recipe(directory.path() / "local");
  Inputs inputs = scripted_inputs(scripted);
  Script script;
  train(scripted, inputs, script.engines());
  EXPECT_EQ(lines_of(scripted), 1U);
  run(local);
  EXPECT_EQ(lines_of(local), 0U);
}

TEST(ServedPair, TrainsAsTheLocalEnginesDo) {
  const TemporaryDirectory directory;
  Recipe local = tiny_recipe(directory.path() / "local"), served = tiny_recipe(directory.path() / "served");
  run(local);
  Inputs inputs = tiny_inputs(served);
  Engines engines{
      .student = std::make_unique<ServedEngine>(inputs.student, kIds),
      .teachers = one_teacher(std::make_unique<ServedEngine>(*inputs.teachers.front().model, kIds))};
  train(served, inputs, std::move(engines));
  const std::vector<Json> a = metrics_of(local.out), b = metrics_of(served.out);
  // Later, updates that differ in their last bits may lead apart.
  for (std::size_t step = 0; step < 2; ++step) {
    EXPECT_NEAR(a[step]["loss"].get<double>(), b[step]["loss"].get<double>(),
                1e-3 * a[step]["loss"].get<double>());
    EXPECT_NEAR(a[step]["mass"].get<double>(), b[step]["mass"].get<double>(), 1e-4);
    EXPECT_LT(b[step]["capture_error"].get<double>(), 1e-4) << "new weights are not taken over";
  }
}

// Everything else that takes an engine.
TEST(ScriptedEngines, AreExplainedProbedAndEvaluated) {
  ScriptedEngine student(kIds, 11), teacher(kIds, 12);
  const routing::ObjectiveOptions options = routing::objective_from({{"k", 8}});
  Rollout given = probe::given_rollout({3, 4}, {5, 6, 7});
  const auto tokens = probe::explain_rollout(student, teacher, given, options, 42);
  ASSERT_EQ(tokens.size(), 3U);
  for (const auto& token : tokens) EXPECT_GT(token.mass, 0.05);
  student.spoil_answer = [](Answer& answer, const Rollout&) { answer.id_N[1] = 60; };
  Rollout again = probe::given_rollout({3, 4}, {5, 6, 7});
  const auto spoilt = probe::explain_rollout(student, teacher, again, options, 42);
  EXPECT_EQ(spoilt[0].not_routed, "");
  EXPECT_THAT(spoilt[1].not_routed, HasSubstr("misaligned"));

  ScriptedEngine base(kIds, 11);
  std::vector<Prompt> prompts(4);
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    prompts[i].number = i;
    prompts[i].ids = {static_cast<std::int32_t>(8 + i)};
  }
  teacher.spoil_answer = [](Answer& answer, const Rollout&) { answer.values.logsumexp_N[2] = std::nanf(""); };
  const probe::MismatchBank bank(base, teacher, prompts, 10, 12, options, 5);
  EXPECT_GT(bank.mass(base), 0.05);
  base.spoil_answer = [](Answer& answer, const Rollout&) { answer.id_N.assign(answer.id_N.size(), 0); };
  EXPECT_THAT(error_of([&] { bank.mass(base); }), HasSubstr("the answer of engine scripted"));

  const TemporaryDirectory directory;
  const tokenizer::Tokenizer tokenizer(fs::path(ROUTEOPD_TEST_DATA).parent_path() / "lab" / "base");
  ScriptedEngine writer(tokenizer.real_ids(), 4);
  eval::Protocol protocol;
  protocol.n = 3;
  protocol.max_new_tokens = 7;
  eval::Suite suite{.name = "suite", .file = "", .sha256 = "", .prompts = prompts};
  for (Prompt& prompt : suite.prompts) {
    prompt.id = std::to_string(prompt.number);
    prompt.answer = "4";
    prompt.ids = {2};
  }
  const eval::Evaluation evaluation = eval::evaluate_into(directory.path() / "eval", writer, {suite},
                                                          protocol, tokenizer, {{"path", "none"}});
  ASSERT_EQ(evaluation.responses.size(), 1U);
  EXPECT_EQ(evaluation.responses[0].size(), 12U);
}

}  // namespace
}  // namespace routeopd::train
