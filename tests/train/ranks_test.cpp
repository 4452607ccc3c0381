// Ranks against one process, on the tiny pair: shares, first steps to the bit, gradients, weights,
// evaluations.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <mutex>
#include <span>

#include "routeopd/base/interrupt.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/shared_work.h"
#include "routeopd/train/schedule.h"
#include "routeopd/train/shares.h"
#include "routeopd/train/stages.h"
#include "testing_errors.h"
#include "thread_group.h"
#include "train/run_testing.h"

namespace routeopd::train {
namespace {

// A step's data on one rank.
struct RankStep {
  explicit RankStep(const Recipe& recipe, ranks::Group& group = ranks::alone())
      : inputs(tiny_inputs(recipe)), stages(recipe, inputs, make_engines(recipe, inputs), group) {
    std::vector<Prompt> all = PromptOrder(std::ssize(inputs.prompts), recipe).prompts(inputs.prompts, 0);
    if (group.alone()) {
      prompts = all;
    } else {
      const auto shares = share_out(all, recipe, group.size());
      for (const std::size_t place : shares[static_cast<std::size_t>(group.rank())])
        prompts.push_back(all[place]);
    }
    rollout = stages.write(prompts, 0);
    scores = stages.score(rollout);
    routes = stages.route(rollout, scores);
  }

  Experience experience() const { return stages.experience(rollout, scores, routes); }

  // Rows of one response, by the number of its prompt and its sample.
  std::size_t first_state(std::uint32_t prompt, std::uint32_t sample) const {
    for (std::size_t n = 0; n < rollout.address_N.size(); ++n)
      if (rollout.address_N[n].prompt == prompt && rollout.address_N[n].response == sample) return n;
    ADD_FAILURE() << "no response " << sample << " to prompt " << prompt;
    return 0;
  }

  Inputs inputs;
  Stages stages;
  std::vector<Prompt> prompts;
  Rollout rollout;
  Scores scores;
  Routes routes;
};

Recipe recipe_of(const std::string& arm, std::int32_t minibatches = 1) {
  Recipe recipe = tiny_recipe("unused", arm == "exact" ? "routeopd" : arm);
  if (arm == "exact") recipe.objective = routing::objective_from({{"pairs", "exact"}, {"k", 8}});
  recipe.train.minibatches = minibatches;
  return recipe;
}

// Gradients of the first minibatch, as an update sees them.
std::vector<at::Tensor> first_gradients(RankStep& step, const Recipe& recipe, ranks::Group& group,
                                        Exchanged& sent) {
  LossGradients gradients(
      step.inputs.student,
      step.inputs.teachers.empty() ? at::Tensor() : step.inputs.teachers.front().model->head_VH,
      step.inputs.real_ids, {.objective = recipe.objective});
  const auto [first, end] =
      minibatches_of(step.rollout, recipe.train.minibatches, step_size_of(recipe, group)).front();
  const double states =
      ranks::sum_of(group, {static_cast<double>(valid_states(step.experience(), first, end))}).front();
  gradients.accumulate(step.experience(), first, end, {}, static_cast<std::int64_t>(states));
  std::vector<at::Tensor> all = gradients.gradients();
  sent = add_up_gradients(group, gradients, all);
  for (at::Tensor& gradient : all) gradient = gradient.clone();
  return all;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const double norm = at::linalg_vector_norm(b.to(at::kDouble)).item<double>();
  const double difference = at::linalg_vector_norm((a - b).to(at::kDouble)).item<double>();
  return norm == 0 ? difference : difference / norm;
}

TEST(Ranks, SharesAreBalancedByTokensAndKeepTheOrder) {
  Recipe recipe = recipe_of("routeopd");
  recipe.rollout.max_new_tokens = 10;
  std::vector<Prompt> prompts(9);
  for (std::size_t p = 0; p < prompts.size(); ++p) prompts[p].ids.resize(p == 0 ? 90 : 10);
  const auto shares = share_out(prompts, recipe, 2);
  const auto tokens = [&](const std::vector<std::size_t>& share) {
    std::int64_t sum = 0;
    for (const std::size_t place : share) sum += std::ssize(prompts[place].ids) + 10;
    return sum;
  };
  EXPECT_TRUE(std::ranges::is_sorted(shares[0]) && std::ranges::is_sorted(shares[1]));
  EXPECT_EQ(tokens(shares[0]) + tokens(shares[1]), 260);
  EXPECT_LE(std::abs(tokens(shares[0]) - tokens(shares[1])), 20) << "a short prompt and its response";
  std::size_t dealt = 0;
  for (const auto& share : share_out(prompts, recipe, 12)) dealt += share.size();
  EXPECT_EQ(dealt, 9U) << "more ranks than prompts";
  recipe.train.minibatches = 3;
  for (const auto& share : share_out(std::vector<Prompt>(6), recipe, 2))
    EXPECT_EQ(share.size(), 3U) << "one of every minibatch";
}

TEST(Ranks, FirstStepIsThatOfOneProcessToTheBit) {
  for (const char* const arm : {"routeopd", "union_rkl", "sampled_rkl", "random_background"}) {
    const Recipe recipe = recipe_of(arm);
    const RankStep one(recipe);
    for (const int size : {2, 3, 5}) {  // of 4 prompts: equal shares, uneven ones, a rank without any
      std::mutex lock;
      std::int64_t states = 0;
      ranks::on_ranks(size, [&](ranks::Group& group) {
        const RankStep part(recipe, group);
        const std::lock_guard held(lock);
        states += part.rollout.states();
        for (const Response& response : part.rollout.responses_B) {
          const auto at = static_cast<std::size_t>(response.first_state);
          const StateAddress& address = part.rollout.address_N[at];
          const std::size_t from = one.first_state(address.prompt, address.response);
          const auto same = [&](const auto& mine, const auto& all, std::size_t width) {
            const std::size_t count = static_cast<std::size_t>(response.length) * width;
            ASSERT_GE(all.size(), from * width + count);
            ASSERT_GE(mine.size(), at * width + count);
            EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(mine).subspan(at * width, count)),
                                           std::as_bytes(std::span(all).subspan(from * width, count))))
                << arm << ", " << size << " ranks";
          };
          same(part.rollout.id_N, one.rollout.id_N, 1);
          same(part.rollout.logprob_N, one.rollout.logprob_N, 1);
          same(part.scores.teacher_logprob_N, one.scores.teacher_logprob_N, 1);
          if (!recipe.makes_routes()) continue;
          same(part.scores.teacher_logits_NJ, one.scores.teacher_logits_NJ,
               static_cast<std::size_t>(one.scores.columns));
          same(part.routes.mass_N, one.routes.mass_N, 1);
          same(part.routes.target_NM, one.routes.target_NM, static_cast<std::size_t>(one.routes.pairs));
          same(part.routes.source_NM, one.routes.source_NM, static_cast<std::size_t>(one.routes.pairs));
        }
      });
      EXPECT_EQ(states, one.rollout.states()) << arm << ", " << size << " ranks";
    }
  }
}

// Sums in another order: 1e-6 of a tensor's norm in float32.
TEST(Ranks, FirstGradientIsThatOfOneProcess) {
  for (const char* const arm : {"routeopd", "exact", "union_fkl", "sampled_rkl", "full_rkl", "sft"}) {
    for (const std::int32_t minibatches : {1, 3}) {
      const Recipe recipe = recipe_of(arm, minibatches);
      RankStep one(recipe);
      Exchanged sent;
      const std::vector<at::Tensor> expected = first_gradients(one, recipe, ranks::alone(), sent);
      EXPECT_EQ(sent.bytes, 0);
      for (const int size : {2, 3, 5}) {
        ranks::on_ranks(size, [&](ranks::Group& group) {
          RankStep part(recipe, group);
          Exchanged exchanged;
          const std::vector<at::Tensor> gradients = first_gradients(part, recipe, group, exchanged);
          for (std::size_t i = 0; i < expected.size(); ++i)
            EXPECT_LE(relative_difference(gradients[i], expected[i]), 1e-6)
                << arm << ", " << minibatches << " minibatches, " << size << " ranks, tensor " << i;
          EXPECT_LE(exchanged.bytes, exchanged.dense_bytes + 4 * 90);
        });
      }
    }
  }
}

// As routing leaves a state that has no values.
void drop_state(Routes& routes, std::size_t n) {
  routes.validity_N[n] = Validity::kNonFinite;
  routes.routed_N[n] = 0;
  const auto pairs = static_cast<std::size_t>(routes.pairs);
  for (std::size_t i = n * pairs; i < (n + 1) * pairs; ++i)
    routes.source_NM[i] = routes.destination_NM[i] = -1;
}

// As if the other ranks' states were all there is.
TEST(Ranks, ARankWhoseStatesAreAllInvalidAddsNothing) {
  const Recipe recipe = recipe_of("routeopd");
  RankStep one(recipe);
  const auto shares = share_out(one.prompts, recipe, 2);
  const auto drop = [&](RankStep& step) {  // what the second rank has
    for (std::size_t n = 0; n < step.routes.validity_N.size(); ++n)
      if (std::ranges::count(shares[1], step.rollout.address_N[n].prompt) > 0) drop_state(step.routes, n);
  };
  drop(one);
  Exchanged sent;
  const std::vector<at::Tensor> expected = first_gradients(one, recipe, ranks::alone(), sent);
  ranks::on_ranks(2, [&](ranks::Group& group) {
    RankStep part(recipe, group);
    drop(part);
    Exchanged exchanged;
    const std::vector<at::Tensor> gradients = first_gradients(part, recipe, group, exchanged);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(relative_difference(gradients[i], expected[i]), 1e-6) << i;
  });
}

TEST(Ranks, WholeRunsKeepEqualWeightsAndTellGlobalMetrics) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "one");
  recipe.train.minibatches = 2;
  recipe.train.epochs = 2;
  run(recipe);
  for (const int size : {2, 3, 5}) {
    recipe.out = (directory.path() / std::to_string(size)).string();
    std::vector<std::vector<at::Tensor>> weights(static_cast<std::size_t>(size));
    ranks::on_ranks(size, [&](ranks::Group& group) {
      Inputs inputs = tiny_inputs(recipe);
      train(recipe, inputs, make_engines(recipe, inputs), {}, Start::kNew, group);
      for (const model::Parameter& weight : model::parameters(inputs.student))
        weights[static_cast<std::size_t>(group.rank())].push_back(weight.tensor.detach().clone());
    });
    for (const auto& other : weights)
      for (std::size_t i = 0; i < other.size(); ++i)
        EXPECT_TRUE(at::equal(other[i], weights.front()[i])) << i;
    const std::vector<Json> single = metrics_of(directory.path() / "one"), several = metrics_of(recipe.out);
    ASSERT_EQ(single.size(), several.size());
    for (const char* const name : {"loss", "mass", "budget", "coverage", "routed_share", "entropy",
                                   "policy_entropy", "grad_norm", "tokens", "teacher_tokens"})
      EXPECT_NEAR(several[0][name].get<double>(), single[0][name].get<double>(),
                  1e-5 * std::abs(single[0][name].get<double>()))
          << name;
    EXPECT_EQ(several[0]["validity"], single[0]["validity"]);
    EXPECT_EQ(several[0]["exchange"]["ranks"], size);
    EXPECT_GE(several[0]["exchange"]["dense_bytes"], several[0]["exchange"]["bytes"]);
    const auto first_lines = [](const std::filesystem::path& run) {
      const std::string all = bytes_in(run / "rollouts.jsonl");
      std::size_t end = 0;
      for (int line = 0; line < 8; ++line) end = all.find('\n', end) + 1;
      return all.substr(0, end);
    };
    EXPECT_EQ(first_lines(recipe.out), first_lines(directory.path() / "one"));
  }
}

TEST(Ranks, ResumeInAnotherNumberOfRanks) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.train.steps = 2;
  const auto train_on = [&](int size, Start start) {
    ranks::on_ranks(size, [&](ranks::Group& group) {
      Inputs inputs = tiny_inputs(recipe);
      train(recipe, inputs, make_engines(recipe, inputs), {}, start, group);
    });
  };
  train_on(2, Start::kNew);
  recipe.train.steps = 4;
  train_on(3, Start::kResume);
  EXPECT_THAT(bytes_in(directory.path() / "run/log.txt"),
              testing::AllOf(testing::HasSubstr(", 2 ranks"), testing::HasSubstr(", 3 ranks"),
                             testing::HasSubstr("step 2 was made by 2 ranks, and 3 go on")));
  EXPECT_EQ(metrics_of(recipe.out).size(), 4U);
  Inputs inputs = tiny_inputs(recipe);
  recipe.train.steps = 5;
  EXPECT_EQ(train(recipe, inputs, {}, Start::kResume), 1) << "one process goes on from it";
}

TEST(Ranks, AnErrorOfOneRankIsEveryRanks) {
  std::vector<std::string> said(3);
  ranks::on_ranks(3, [&](ranks::Group& group) {
    said[static_cast<std::size_t>(group.rank())] = error_of([&] {
      ranks::together(group, [&] {
        if (group.rank() == 1) throw UserError("its disk is full");
      });
    });
  });
  EXPECT_EQ(said[1], "its disk is full");
  EXPECT_THAT(said[0], testing::HasSubstr("rank 1, which said: its disk is full"));
  EXPECT_EQ(said[2], said[0]);
  ranks::on_ranks(2, [&](ranks::Group& group) {
    EXPECT_THROW(ranks::together(group,
                                 [&] {
                                   if (group.rank() == 0) throw Interrupted(2);
                                 }),
                 Interrupted);
    EXPECT_THAT(error_of([&] { ranks::check_agreement(group, {{"the lr", group.leads() ? "1" : "2"}}); }),
                testing::HasSubstr("disagree on the lr: rank 0 has 1, rank 1 has 2"));
    std::map<std::string, std::string> more = {{"the lr", "1"}};
    if (!group.leads()) more["another teacher"] = "x";
    EXPECT_THAT(error_of([&] { ranks::check_agreement(group, more); }),
                testing::HasSubstr("disagree on another teacher: rank 0 has none, rank 1 has x"));
  });
}

TEST(Ranks, NobodyLeavesAnInterruptedRunBeforeItIsSaved) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.checkpoint.every = 0;
  catch_interrupts();
  ranks::on_ranks(3, [&](ranks::Group& group) {
    Inputs inputs = tiny_inputs(recipe);
    const StepWatch watch = [&](const StepMetrics&) {
      if (group.rank() == 1) std::raise(SIGINT);
    };
    EXPECT_THROW(train(recipe, inputs, make_engines(recipe, inputs), watch, Start::kNew, group), Interrupted);
    EXPECT_TRUE(std::filesystem::exists(directory.path() / "run/checkpoints/step_1")) << group.rank();
  });
  catch_interrupts();  // forgets the signal
}

TEST(Ranks, SharedWorkAnswersAsOneEngineDoes) {
  const Recipe recipe = recipe_of("routeopd");
  const Inputs inputs = tiny_inputs(recipe);
  const engine::Sampling sampling{.n = 3, .max_new_tokens = 9};
  const engine::Capture capture{.k = 4, .hidden = true, .entropy = true};
  engine::LocalEngine alone(inputs.student, inputs.real_ids);
  const Rollout expected = alone.generate(inputs.prompts, sampling, capture);
  const std::vector<std::int32_t> ids(expected.id_N.size() * 2, 5);
  const engine::ScoreRequest request{.k = 4, .gather_ids_NG = ids, .gather_columns = 2, .hidden = true};
  const engine::StateValues scores = alone.score(expected, request);
  for (const int size : {2, 5, 8}) {
    ranks::on_ranks(size, [&](ranks::Group& group) {
      const Inputs own = tiny_inputs(recipe);
      engine::LocalEngine engine(own.student, own.real_ids);
      engine::share_work(group, {&engine}, [&](const std::vector<engine::Engine*>& shared) {
        std::int64_t told = 0;
        const Rollout rollout = shared[0]->generate(
            inputs.prompts, sampling, capture,
            [&](std::int64_t done, std::int64_t total, const Rollout& one) {
              EXPECT_EQ(done, ++told);
              EXPECT_EQ(total, 18);
              const Response& response = one.responses_B.front();
              const Response& same =
                  expected.responses_B[static_cast<std::size_t>(response.prompt * 3 + response.sample)];
              EXPECT_TRUE(
                  std::equal(one.id_N.begin(), one.id_N.end(), expected.id_N.begin() + same.first_state));
            });
        EXPECT_EQ(told, 18);
        EXPECT_EQ(rollout.id_N, expected.id_N);
        EXPECT_EQ(rollout.logprob_N, expected.logprob_N);
        EXPECT_EQ(rollout.top_logits_NK, expected.top_logits_NK);
        EXPECT_EQ(rollout.hidden_NH, expected.hidden_NH);
        EXPECT_EQ(rollout.entropy_N, expected.entropy_N);
        const engine::StateValues values = shared[0]->score(expected, request);
        EXPECT_EQ(values.top_logits_NK, scores.top_logits_NK);
        EXPECT_EQ(values.gathered_NG, scores.gathered_NG);
        EXPECT_EQ(values.hidden_NH, scores.hidden_NH);
        EXPECT_GE(values.tokens_read, scores.tokens_read) << "each rank reads a prompt of its own";
      });
      EXPECT_THAT(error_of([&] {
                    engine::share_work(group, {&engine}, [&](const auto& shared) {
                      shared[0]->generate(inputs.prompts, sampling, {});
                      throw UserError("the disk is full");
                    });
                  }),
                  testing::HasSubstr("the disk is full"));
    });
  }
}

}  // namespace
}  // namespace routeopd::train
