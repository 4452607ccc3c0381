// Teachers with prompts of their own, and several of them: what they say is what each says alone, bit for
// bit.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "routeopd/base/interrupt.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/probe/mismatch.h"
#include "routeopd/train/stages.h"
#include "run_testing.h"

namespace routeopd::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int32_t kTinyIds = 90;

// [teachers.NAME] of the tiny directories.
Recipe with_teachers(Recipe recipe, const std::map<std::string, std::string>& directories) {
  recipe.teacher = {};
  for (const auto& [name, directory] : directories) recipe.teachers[name].path = tiny(directory).string();
  return recipe;
}

// A teacher that is like the tiny one and says other things.
std::string other_teacher(const fs::path& directory) {
  const c10::NoGradGuard no_grad;
  model::Model other = model::load_model(tiny("teacher"));
  other.norm_H.mul_(1.5);
  model::save_model(other, directory, tiny("teacher"));
  return directory.string();
}

// A hint for every second prompt.
void give_hints(Inputs& inputs) {
  for (std::size_t p = 0; p < inputs.prompts.size(); p += 2)
    inputs.prompts[p].teacher_ids = {60, static_cast<std::int32_t>(20 + p), 33, 5};
}

// Prompts in turn to the teachers.
void share_out(Inputs& inputs) {
  for (std::size_t p = 0; p < inputs.prompts.size(); ++p)
    inputs.prompts[p].teacher = static_cast<std::int32_t>(p % inputs.teachers.size());
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

void expect_same_scores(const Scores& a, const Scores& b) {
  EXPECT_EQ(a.columns, b.columns);
  EXPECT_EQ(a.teacher_ids_NJ, b.teacher_ids_NJ);
  expect_same_bits(a.teacher_logits_NJ, b.teacher_logits_NJ, "logits");
  expect_same_bits(a.teacher_logsumexp_N, b.teacher_logsumexp_N, "log-partitions");
  expect_same_bits(a.teacher_at_student_NK, b.teacher_at_student_NK, "at the student's ids");
  expect_same_bits(a.student_at_teacher_NJ, b.student_at_teacher_NJ, "at the teacher's ids");
  expect_same_bits(a.teacher_logprob_N, b.teacher_logprob_N, "of the tokens taken");
  EXPECT_EQ(a.validity_N, b.validity_N);
}

// The teacher's values are those of one sequence: its own prompt, then the response.
TEST(TeacherPrompt, ScoresAreThoseOfItsPromptAndTheResponseInOneSequence) {
  const Recipe recipe = tiny_recipe("unused");
  Inputs inputs = tiny_inputs(recipe);
  give_hints(inputs);
  Stages stages(recipe, inputs);
  Rollout rollout = stages.write(inputs.prompts, 0);
  ASSERT_EQ(rollout.teacher_prompt_ids_P.size(), inputs.prompts.size());
  const Scores scores = stages.score(rollout);
  engine::LocalEngine teacher(*inputs.teachers.front().model, kTinyIds);
  std::int64_t with_hint = 0;
  for (const Response& response : rollout.responses_B) {
    const Prompt& prompt = inputs.prompts[static_cast<std::size_t>(response.prompt)];
    with_hint += prompt.teacher_ids.empty() ? 0 : 1;
    // Everything after the first token is "response" here: the concatenation, read from its beginning.
    std::vector<std::int32_t> ids = prompt.teacher_ids.empty() ? prompt.ids : prompt.teacher_ids;
    const std::size_t before = ids.size();
    for (std::int64_t j = 0; j < response.length; ++j)
      ids.push_back(rollout.id_N[static_cast<std::size_t>(response.first_state + j)]);
    Rollout whole;
    whole.prompt_ids_P = {{ids.front()}};
    whole.id_N.assign(ids.begin() + 1, ids.end());
    whole.responses_B = {{.prompt = 0, .sample = 0, .first_state = 0, .length = std::ssize(whole.id_N)}};
    const auto values = teacher.score(whole, {.k = 8, .gather_ids_NG = whole.id_N, .gather_columns = 1});
    for (std::int64_t j = 0; j < response.length; ++j) {
      const auto n = static_cast<std::size_t>(response.first_state + j);
      const std::size_t row = before - 1 + static_cast<std::size_t>(j);
      EXPECT_EQ(scores.teacher_logsumexp_N[n], values.logsumexp_N[row]);
      EXPECT_EQ(scores.teacher_logprob_N[n], values.gathered_NG[row] - values.logsumexp_N[row]);
      for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(scores.teacher_ids_NJ[n * 8 + i], values.top_ids_NK[row * 8 + i]);
        EXPECT_EQ(scores.teacher_logits_NJ[n * 8 + i], values.top_logits_NK[row * 8 + i]);
      }
    }
  }
  EXPECT_GT(with_hint, 0);
}

TEST(TeacherPrompt, WithoutOneNothingIsCopiedAndNoBitChanges) {
  const Recipe recipe = tiny_recipe("unused");
  Inputs inputs = tiny_inputs(recipe);
  Stages stages(recipe, inputs);
  Rollout rollout = stages.write(inputs.prompts, 0);
  EXPECT_TRUE(rollout.teacher_prompt_ids_P.empty());
  EXPECT_TRUE(rollout.teacher_P.empty());
  const Scores plain = stages.score(rollout);
  rollout.teacher_prompt_ids_P.assign(inputs.prompts.size(), {});  // the way of a step in which some differ
  expect_same_scores(plain, stages.score(rollout));
}

// Teacher = student: refused, unless it is told more than the student.
TEST(SelfDistillation, NeedsAPromptThatTellsTheTeacherMore) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.teacher.path = recipe.student.path;
  Inputs inputs = tiny_inputs(recipe);
  EXPECT_THAT(error_of([&] { train(recipe, inputs); }),
              AllOf(HasSubstr("the same weights"), HasSubstr("teacher_messages, teacher_prompt or")));
  give_hints(inputs);
  train(recipe, inputs);
  const std::vector<Json> metrics = metrics_of(recipe.out);
  ASSERT_EQ(metrics.size(), 4U);
  EXPECT_GT(metrics[0]["mass"].get<double>(), 1e-3) << "it teaches from the first step on";
  EXPECT_TRUE(metrics[0]["teachers"].is_null());
  EXPECT_FALSE(at::equal(inputs.student.embed_VH.detach(), model::load_model(tiny("student")).embed_VH));
  std::int64_t shown = 0, lines_read = 0;
  formats::JsonLines lines((fs::path(recipe.out) / "rollouts.jsonl").string());
  for (; const auto line = lines.next(); ++lines_read) {
    const auto number = std::stoul((*line)["id"].get<std::string>());
    EXPECT_EQ(line->contains("teacher_prompt_ids"), number % 2 == 0);
    if (number % 2 == 0) {
      EXPECT_EQ((*line)["teacher_prompt_ids"][1], 20 + number);
    }
    shown += number % 2 == 0 ? 1 : 0;
    EXPECT_FALSE(line->contains("teacher")) << "there is one";
  }
  EXPECT_GT(shown, 0);
  EXPECT_LT(shown, lines_read);
}

TEST(TeacherPrompt, IsCheckedAsTheStudentsIs) {
  const Recipe recipe = tiny_recipe("unused");
  Inputs inputs = tiny_inputs(recipe);
  inputs.prompts[2].teacher_ids = {5, 90};
  EXPECT_THAT(error_of([&] { check_inputs(recipe, inputs); }),
              HasSubstr("the teacher's prompt of 2 has id 90, outside the tokenizer's 90 ids"));
  inputs.prompts[2].teacher_ids.assign(
      static_cast<std::size_t>(inputs.teachers.front().config.max_position_embeddings - 11), 5);
  EXPECT_THAT(error_of([&] { check_inputs(recipe, inputs); }),
              AllOf(HasSubstr("the teacher's prompt of 2 has"), HasSubstr("positions of the teacher by 1")));
  inputs.prompts[2].teacher_ids.pop_back();
  check_inputs(recipe, inputs);
}

TEST(TeacherPrompt, TheMassProbeReadsIt) {
  const Recipe recipe = tiny_recipe("unused");
  Inputs inputs = tiny_inputs(recipe);
  engine::LocalEngine base(inputs.student, kTinyIds);
  const auto mass_of = [&] {
    return probe::MismatchBank(base, base, inputs.prompts, 12, 12, recipe.objective, 3).mass(base);
  };
  EXPECT_LT(mass_of(), 1e-5);
  give_hints(inputs);
  EXPECT_GT(mass_of(), 1e-3);
}

// Two teachers that differ: each state has the values of its own, as if that one had read everything.
TEST(SeveralTeachers, EachStateHasItsOwnTeachersValues) {
  const TemporaryDirectory directory;
  Recipe recipe = with_teachers(tiny_recipe("unused"), {{"big", "teacher"}});
  recipe.teachers["other"].path = other_teacher(directory.path() / "other");
  Inputs inputs = tiny_inputs(recipe);
  share_out(inputs);
  give_hints(inputs);
  inputs.prompts[3].teacher_ids = {9, 8};
  Stages stages(recipe, inputs);
  Rollout rollout = stages.write(inputs.prompts, 1);
  const Scores merged = stages.score(rollout);
  EXPECT_EQ(merged.teacher_tokens_T.size(), 2U);
  EXPECT_EQ(merged.teacher_tokens_T[0] + merged.teacher_tokens_T[1], merged.teacher_tokens);
  for (std::int32_t t = 0; t < 2; ++t) {
    Recipe one = tiny_recipe("unused");
    one.teacher.path = recipe.teachers.at(t == 0 ? "big" : "other").path;
    Inputs alone = tiny_inputs(one);
    Stages reader(one, alone);
    Rollout same = rollout;
    same.teacher_P.clear();
    const Scores scores = reader.score(same);
    std::int64_t compared = 0;
    for (const Response& response : rollout.responses_B) {
      if (inputs.prompts[static_cast<std::size_t>(response.prompt)].teacher != t) continue;
      for (std::int64_t j = 0; j < response.length; ++j, ++compared) {
        const auto n = static_cast<std::size_t>(response.first_state + j);
        EXPECT_EQ(merged.teacher_logsumexp_N[n], scores.teacher_logsumexp_N[n]);
        EXPECT_EQ(merged.teacher_logprob_N[n], scores.teacher_logprob_N[n]);
        for (std::size_t i = n * 8; i < n * 8 + 8; ++i) {
          EXPECT_EQ(merged.teacher_ids_NJ[i], scores.teacher_ids_NJ[i]);
          EXPECT_EQ(merged.teacher_logits_NJ[i], scores.teacher_logits_NJ[i]);
          EXPECT_EQ(merged.teacher_at_student_NK[i], scores.teacher_at_student_NK[i]);
          EXPECT_EQ(merged.student_at_teacher_NJ[i], scores.student_at_teacher_NJ[i]);
        }
      }
    }
    EXPECT_GT(compared, 8);
  }
}

// Two names for one directory are one teacher, to the last bit of the weights.
TEST(SeveralTeachers, TwoNamesOfOneDirectoryTrainAsOne) {
  const TemporaryDirectory directory;
  const Recipe one = tiny_recipe(directory.path() / "one");
  const Recipe two =
      with_teachers(tiny_recipe(directory.path() / "two"), {{"a", "teacher"}, {"b", "teacher"}});
  Inputs of_one = tiny_inputs(one), of_two = tiny_inputs(two);
  share_out(of_two);
  train(one, of_one);
  train(two, of_two);
  const char* const weights = "checkpoints/step_4/model.safetensors";
  EXPECT_EQ(bytes_in(fs::path(one.out) / weights), bytes_in(fs::path(two.out) / weights));
  std::vector<Json> single = metrics_of(one.out), several = metrics_of(two.out);
  for (std::size_t step = 0; step < several.size(); ++step) {
    const Json teachers = several[step]["teachers"];
    ASSERT_EQ(teachers.size(), 2U);
    EXPECT_EQ(teachers["a"]["states"].get<int>() + teachers["b"]["states"].get<int>(),
              several[step]["tokens"]);
    EXPECT_EQ(teachers["a"]["calls"].get<int>() + teachers["b"]["calls"].get<int>(), 8);
    EXPECT_EQ(teachers["a"]["tokens"].get<int>() + teachers["b"]["tokens"].get<int>(),
              several[step]["teacher_tokens"]);
    const double valid_a = teachers["a"]["valid"], valid_b = teachers["b"]["valid"];
    EXPECT_EQ(valid_a + valid_b, several[step]["validity"]["valid"].get<double>());
    const auto mean = [&](const char* name) {
      return (valid_a * teachers["a"][name].get<double>() + valid_b * teachers["b"][name].get<double>()) /
             (valid_a + valid_b);
    };
    EXPECT_NEAR(mean("mass"), several[step]["mass"].get<double>(), 1e-9);
    EXPECT_NEAR(mean("routed_share"), several[step]["routed_share"].get<double>(), 1e-9);
    several[step]["teachers"] = nullptr;
  }
  EXPECT_EQ(single, several);
  formats::JsonLines lines((fs::path(two.out) / "rollouts.jsonl").string());
  while (const auto line = lines.next())
    EXPECT_EQ((*line)["teacher"], std::stoul((*line)["id"].get<std::string>()) % 2 == 0 ? "a" : "b");
}

TEST(SeveralTeachers, ResumeToTheSameBitsAndKnowTheirWeights) {
  const TemporaryDirectory directory;
  const std::string other = other_teacher(directory.path() / "other");
  const auto recipe_of = [&](const char* name) {
    Recipe recipe = with_teachers(tiny_recipe(directory.path() / name), {{"big", "teacher"}});
    recipe.teachers["other"].path = other;
    recipe.checkpoint.every = 100;
    return recipe;
  };
  const auto inputs_of = [&](const Recipe& recipe) {
    Inputs inputs = tiny_inputs(recipe);
    share_out(inputs);
    give_hints(inputs);
    return inputs;
  };
  const Recipe whole = recipe_of("whole"), parts = recipe_of("parts");
  Inputs all = inputs_of(whole), first = inputs_of(parts);
  train(whole, all);
  catch_interrupts();
  EXPECT_THROW(train(parts, first,
                     [](const StepMetrics& metrics) {
                       if (metrics.step == 2) std::raise(SIGINT);
                     }),
               Interrupted);
  catch_interrupts();  // forgets that one
  Recipe changed = parts;
  changed.teachers["more"] = changed.teachers["big"];
  Inputs wrong = inputs_of(changed);
  EXPECT_THAT(error_of([&] { train(changed, wrong, {}, Start::kResume); }),
              HasSubstr("teachers.more differs"));
  const fs::path weights = directory.path() / "other/model.safetensors";
  const std::string bytes = bytes_in(weights);
  std::string spoilt = bytes;
  spoilt[spoilt.size() - 3] ^= 1;
  std::ofstream(weights, std::ios::binary) << spoilt;
  Inputs second = inputs_of(parts);
  EXPECT_THAT(error_of([&] { train(parts, second, {}, Start::kResume); }),
              HasSubstr("other teachers.other weights"));
  std::ofstream(weights, std::ios::binary) << bytes;
  Inputs third = inputs_of(parts);
  train(parts, third, {}, Start::kResume);
  EXPECT_EQ(metrics_of(whole.out), metrics_of(parts.out));
  for (const char* file : {"model.safetensors", "state/optimizer.safetensors"})
    EXPECT_EQ(bytes_in(fs::path(whole.out) / "checkpoints/step_4" / file),
              bytes_in(fs::path(parts.out) / "checkpoints/step_4" / file));
}

TEST(SeveralTeachers, ARecipeReadsBackEqualAndIsSetFromOutside) {
  const TemporaryDirectory directory;
  Recipe recipe =
      with_teachers(tiny_recipe(directory.path() / "run"), {{"math", "teacher"}, {"a-b_9", "untied"}});
  recipe.default_teacher = "math";
  recipe.teachers["math"].urls = {"http://a:1", "http://b:2"};
  recipe.teachers["math"].engine = EngineKind::kVllm;
  const std::string text = recipe_text(recipe);
  EXPECT_THAT(text, AllOf(HasSubstr("\n[teachers]\ndefault = \"math\""),
                          HasSubstr("\n[teachers.a-b_9]\npath = "), Not(HasSubstr("[teacher]\n"))));
  const auto file = directory.write("recipe.toml", text).string();
  EXPECT_EQ(recipe_text(read_recipe(file)), text);
  EXPECT_TRUE(differences(read_recipe(file), recipe).empty());
  const Recipe other = read_recipe(file, {"teachers.math.path=elsewhere", "teachers.new.path=there",
                                          "teachers.default=new", "teachers.new.requests=3"});
  EXPECT_EQ(other.teachers.at("math").path, "elsewhere");
  EXPECT_EQ(other.teachers.at("math").urls.size(), 2U) << "the file's other settings stay";
  EXPECT_EQ(other.teachers.at("new").requests, 3);
  EXPECT_THAT(differences(recipe, other),
              ElementsAre("teachers.default", "teachers.math.path", "teachers.new"));
  const auto refused = [&](const std::string& setting) {
    return error_of([&] { read_recipe(file, {setting}); });
  };
  EXPECT_THAT(refused("teachers.math.pth=x"),
              HasSubstr("[teachers.math] unknown option pth; did you mean path?"));
  EXPECT_THAT(refused("teachers.defalt=math"),
              HasSubstr("[teachers] unknown option defalt; did you mean default?"));
  EXPECT_THAT(refused("teachers.default.path=x"), HasSubstr("no teacher can be called default"));
  EXPECT_THAT(refused("teachers.ma th.path=x"), HasSubstr("expected names of letters, digits, _ and -"));
  EXPECT_THAT(refused("teachrs.math=x"), HasSubstr("did you mean [teachers]?"));
}

TEST(SeveralTeachers, WhatARecipeCannotHaveIsSaidInWords) {
  const Recipe good = with_teachers(tiny_recipe("run"), {{"math", "teacher"}, {"code", "untied"}});
  check_recipe(good);
  const auto refused = [&](const std::function<void(Recipe&)>& spoil) {
    Recipe recipe = good;
    spoil(recipe);
    return error_of([&] { check_recipe(recipe); });
  };
  EXPECT_THAT(refused([](Recipe& recipe) { recipe.teacher.path = "x"; }),
              HasSubstr("[teacher]: the recipe has [teachers.code] too; expected one or the other"));
  EXPECT_THAT(refused([](Recipe& recipe) { recipe.teachers["code"].path.clear(); }),
              HasSubstr("[teachers.code] path: missing"));
  EXPECT_THAT(refused([](Recipe& recipe) { recipe.default_teacher = "maths"; }),
              HasSubstr("[teachers] default: there is no [teachers.maths]; did you mean math?"));
  for (const char* arm : {"full_rkl", "full_fkl"})
    EXPECT_THAT(refused([&](Recipe& recipe) { recipe.objective = routing::objective_from({{"arm", arm}}); }),
                HasSubstr(fmt::format(
                    "[objective] arm: {} reads one teacher's whole vocabulary, and there are 2", arm)));
  EXPECT_THAT(refused([](Recipe& recipe) { recipe.objective.k = routing::kFullSupport; }),
              HasSubstr("[objective] k: \"full\" reads one teacher's whole vocabulary"));
  EXPECT_THAT(refused([](Recipe& recipe) {
                recipe.probe.every = 1;
                recipe.probe.bank = "bank";
              }),
              HasSubstr("[probe] bank: a bank is of one teacher, and the recipe has 2"));
}

// A teacher that is the student has something to say to those prompts alone that tell it more.
TEST(SeveralTeachers, EachIsComparedWithTheStudent) {
  const Recipe recipe = with_teachers(tiny_recipe("unused"), {{"big", "teacher"}, {"self", "student"}});
  Inputs inputs = tiny_inputs(recipe);
  share_out(inputs);
  give_hints(inputs);  // to the first teacher's prompts
  EXPECT_THAT(error_of([&] { check_inputs(recipe, inputs); }),
              HasSubstr("[teachers.self] path: teacher and"));
  inputs.prompts[1].teacher_ids = {4, 5};
  check_inputs(recipe, inputs);
}

// Weights on a server are neither read nor hashed: a directory without them will do.
TEST(TeacherOnAServer, ItsDirectoryNeedsNoWeights) {
  const TemporaryDirectory directory;
  fs::create_directories(directory.path() / "served");
  fs::copy(tiny("teacher") / "config.json", directory.path() / "served");
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.teacher.path = (directory.path() / "served").string();
  recipe.teacher.engine = EngineKind::kServe;
  RunPrompts prompts;
  prompts.teachers = {formats::read_model_config(recipe.teacher.path)};
  const fs::path lab = fs::path(ROUTEOPD_TEST_DATA).parent_path() / "lab" / "base";
  const tokenizer::Tokenizer tokenizer(lab);
  const Inputs inputs = load_inputs(recipe, tokenizer, std::move(prompts));
  ASSERT_EQ(inputs.teachers.size(), 1U);
  EXPECT_FALSE(inputs.teachers.front().model.has_value());
  EXPECT_EQ(inputs.teachers.front().config.hidden_size,
            formats::read_model_config(tiny("teacher")).hidden_size);
  const RunDirectory files(recipe, Start::kNew);
  EXPECT_FALSE(files.inputs().contains("teacher"));
  EXPECT_TRUE(files.inputs().contains("prompts"));
}

}  // namespace
}  // namespace routeopd::train
