// Ratios 2, 2m, 10 and 11: the learner's step and the whole step of RouteOPD against sampled reverse KL on
// the same tokens, the memory of both, and packed against padded micro-batches.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>

#include "bench.h"
#include "routeopd/base/system.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/learner.h"
#include "routeopd/train/stages.h"
#include "routeopd/train/train.h"

namespace routeopd::app {
namespace {

// Qwen3-0.6B has 28 layers of 15.7 M weights under a head of 155.6 M, 26 % of a training step's products. A
// quarter of its width with the same share, so that a round takes seconds.
formats::ModelConfig narrow_qwen3() {
  formats::ModelConfig config;
  config.model_type = "qwen3";
  config.vocab_size = 151936;
  config.hidden_size = 256;
  config.intermediate_size = 4608;
  config.num_hidden_layers = 28;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 64;
  config.max_position_embeddings = 32768;
  config.tie_word_embeddings = true;
  return config;
}

formats::ModelConfig small_body() {
  formats::ModelConfig config = narrow_qwen3();
  config.vocab_size = 8192;
  config.intermediate_size = 1024;
  config.num_hidden_layers = 6;
  return config;
}

train::Recipe recipe_of(const std::string& arm) {
  train::Recipe recipe;
  recipe.objective = routing::objective_from({{"arm", arm}});
  recipe.optimizer.lr = 1e-12;  // the student stays what it is, so that all rounds do the same work
  recipe.optimizer.weight_decay = 0;
  recipe.train.micro_tokens = 4096;
  return recipe;
}

// A step's data from nothing: random tokens, and at each state what an arm reads there.
struct Data {
  Rollout rollout;
  Scores scores;
  Routes routes;

  train::Experience experience() const { return {&rollout, &scores, &routes}; }
};

Data random_data(const std::vector<std::int64_t>& lengths, std::int64_t prompt_length,
                 std::int64_t vocabulary, std::uint64_t seed) {
  constexpr std::int32_t kPairsPerState = 2;
  std::mt19937_64 random(seed);
  const auto id = [&] {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocabulary));
  };
  Data data;
  Rollout& rollout = data.rollout;
  for (const std::int64_t length : lengths) {
    std::vector<std::int32_t>& prompt = rollout.prompt_ids_P.emplace_back();
    for (std::int64_t j = 0; j < prompt_length; ++j) prompt.push_back(id());
    rollout.responses_B.push_back({.prompt = static_cast<std::int32_t>(rollout.prompt_ids_P.size() - 1),
                                   .first_state = rollout.states(),
                                   .length = length});
    for (std::int64_t j = 0; j < length; ++j) rollout.id_N.push_back(id());
  }
  const auto states = static_cast<std::size_t>(rollout.states());
  rollout.logprob_N.assign(states, -12.0F);
  data.scores.teacher_logprob_N.assign(states, -11.5F);
  Routes& routes = data.routes;
  routes.states = rollout.states();
  routes.pairs = kPairsPerState;
  for (std::size_t i = 0; i < states * kPairsPerState; ++i) {
    routes.source_NM.push_back(id());
    routes.destination_NM.push_back(id());
  }
  routes.target_NM.assign(states * kPairsPerState, 0.3F);
  routes.old_NM.assign(states * kPairsPerState, 0.0F);
  routes.weight_N.assign(states, 0.3F);
  routes.validity_N.assign(states, Validity::kValid);
  return data;
}

void bench_step(Bench& bench) {
  const formats::ModelConfig config = narrow_qwen3();
  const std::int64_t tokens = bench.options().tokens;
  const std::string shape = fmt::format("28 layers H=256 V=151936 T={}", tokens);
  bench.say("2: learner step, " + shape);
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(std::max<std::int64_t>(1, tokens / 256)),
                                          std::min<std::int64_t>(256, tokens));
  const Data data = random_data(lengths, 1, config.vocab_size, bench.options().seed);
  model::Model routed_student = model::random_model(config, bench.options().seed);
  model::Model sampled_student = model::clone_model(routed_student);
  const auto real_ids = static_cast<std::int32_t>(config.vocab_size);
  train::Learner routed(routed_student, {}, real_ids, recipe_of("routeopd"));
  train::Learner sampled(sampled_student, {}, real_ids, recipe_of("sampled_rkl"));
  routed.update(data.experience());
  sampled.update(data.experience());
  const auto routed_bytes = static_cast<double>(peak_growth([&] { routed.update(data.experience()); }));
  const auto sampled_bytes = static_cast<double>(peak_growth([&] { sampled.update(data.experience()); }));
  const std::string how = "the same tokens and weights, one AdamW update each";
  if (bench.wants("2m"))
    bench.add({.id = "2m",
               .what = "extra peak bytes of a learner step, RouteOPD / sampled-RKL",
               .shape = shape,
               .threads = bench.options().threads,
               .ours = routed_bytes,
               .other = sampled_bytes,
               .unit = "bytes",
               .target = 1,
               .check = how});
  if (!bench.wants("2")) return;
  const std::vector<double> medians = interleaved_medians(
      bench.options().rounds,
      {[&] { routed.update(data.experience()); }, [&] { sampled.update(data.experience()); }});
  bench.add({.id = "2",
             .what = "learner step, RouteOPD / sampled-RKL",
             .shape = shape,
             .threads = bench.options().threads,
             .ours = medians[0],
             .other = medians[1],
             .target = 0.77,
             .check = how});
}

// Lengths as the paper's, a sixteenth as long: log-normal with mean 141 and ninth decile 277, at most 1,024.
std::vector<std::int64_t> paper_lengths(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> length(4.63, 0.80);
  std::vector<std::int64_t> lengths;
  while (lengths.size() < count)
    lengths.push_back(std::clamp<std::int64_t>(std::llround(length(random)), 2, 1024));
  return lengths;
}

// The same data with every response as long as the longest: what stands after its end takes no part.
Data padded(const Data& data) {
  std::int64_t longest = 0;
  for (const Response& response : data.rollout.responses_B) longest = std::max(longest, response.length);
  const std::vector<std::int64_t> lengths(data.rollout.responses_B.size(), longest);
  Data more = random_data(lengths, 1, 2, 0);
  more.rollout.prompt_ids_P = data.rollout.prompt_ids_P;
  std::fill(more.routes.validity_N.begin(), more.routes.validity_N.end(), Validity::kPadding);
  std::fill(more.routes.weight_N.begin(), more.routes.weight_N.end(), 0.0F);
  std::fill(more.routes.source_NM.begin(), more.routes.source_NM.end(), -1);
  std::fill(more.routes.destination_NM.begin(), more.routes.destination_NM.end(), -1);
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const Response& from = data.rollout.responses_B[b];
    const std::int64_t to = more.rollout.responses_B[b].first_state;
    const auto copy = [&](const auto& source, auto& target, std::int64_t width) {
      std::copy_n(source.begin() + from.first_state * width, from.length * width,
                  target.begin() + to * width);
    };
    copy(data.rollout.id_N, more.rollout.id_N, 1);
    copy(data.routes.validity_N, more.routes.validity_N, 1);
    copy(data.routes.weight_N, more.routes.weight_N, 1);
    copy(data.routes.source_NM, more.routes.source_NM, 2);
    copy(data.routes.destination_NM, more.routes.destination_NM, 2);
  }
  return more;
}

void bench_packing(Bench& bench) {
  const formats::ModelConfig config = small_body();
  const Data packed =
      random_data(paper_lengths(32, bench.options().seed), 16, config.vocab_size, bench.options().seed);
  const Data wide = padded(packed);
  const double real = static_cast<double>(packed.rollout.states() + 15 * 32);
  const double all = static_cast<double>(wide.rollout.states() + 15 * 32);
  const std::string shape = fmt::format("6 layers H=256, 32 sequences, {:.0f} of {:.0f} tokens", real, all);
  bench.say("10: packed and padded, " + shape);
  model::Model student = model::random_model(config, bench.options().seed);
  train::Recipe recipe = recipe_of("routeopd");
  recipe.train.micro_tokens = 8192;
  train::Learner learner(student, {}, static_cast<std::int32_t>(config.vocab_size), recipe);
  const auto loss = [&](const Data& data) {
    const double value =
        learner.loss_gradients().accumulate(data.experience(), 0, data.rollout.responses_B.size()).loss;
    learner.loss_gradients().clear();
    return value;
  };
  const double one = loss(packed), other = loss(wide);
  const std::string check = agreed("loss, relative difference", std::abs(one - other) / std::abs(one), 1e-5);
  const std::vector<double> medians = interleaved_medians(
      bench.options().rounds,
      {[&] { learner.update(packed.experience()); }, [&] { learner.update(wide.experience()); }});
  bench.add({.id = "10",
             .what = "learner step, packed / padded",
             .shape = shape,
             .threads = bench.options().threads,
             .ours = medians[0],
             .other = medians[1],
             .target = 1.1 * real / all,
             .check = check});
}

// The laboratory's pair, read by its recipe; one step's rollout for both arms.
class Laboratory {
 public:
  explicit Laboratory(const std::string& recipe_path)
      : recipe_(train::read_recipe(recipe_path, {"optimizer.lr=1e-12", "optimizer.weight_decay=0"})),
        tokenizer_(recipe_.student.path),
        routed_inputs_(train::load_inputs(recipe_, tokenizer_)),
        sampled_inputs_(train::load_inputs(recipe_, tokenizer_)),
        routed_(recipe_, routed_inputs_),
        sampled_stages_(sampled_recipe(), sampled_inputs_),
        prompts_(routed_inputs_.prompts.begin(),
                 routed_inputs_.prompts.begin() + recipe_.rollout.prompts_per_step) {
    for (std::size_t i = 0; i < prompts_.size(); ++i) prompts_[i].number = static_cast<std::uint32_t>(i);
  }

  void routed_rollout() {
    data_.rollout = routed_.write(prompts_, 0);
    data_.scores = routed_.score(data_.rollout);
    data_.routes = routed_.route(data_.rollout, data_.scores);
  }
  void routed_learn() { routed_.learn(data_.experience()); }

  // As lean as it can be: the log-probabilities of the tokens taken, no top-k, no routes.
  void sampled_rollout() {
    sampled_.rollout = sampled_stages_.write(prompts_, 0);
    sampled_.scores = sampled_stages_.score(sampled_.rollout);
    sampled_.routes = sampled_stages_.route(sampled_.rollout, sampled_.scores);
  }
  void sampled_learn() { sampled_stages_.learn(sampled_.experience()); }

  bool same_tokens() const { return data_.rollout.id_N == sampled_.rollout.id_N; }
  std::int64_t tokens() const { return data_.rollout.states(); }

 private:
  train::Recipe sampled_recipe() const {
    train::Recipe recipe = recipe_;
    recipe.objective = routing::objective_from({{"arm", "sampled_rkl"}, {"k", recipe_.objective.k}});
    recipe.train.diagnostics = false;
    return recipe;
  }

  train::Recipe recipe_;
  tokenizer::Tokenizer tokenizer_;
  train::Inputs routed_inputs_, sampled_inputs_;
  train::Stages routed_, sampled_stages_;
  std::vector<Prompt> prompts_;
  Data data_, sampled_;
};

void bench_laboratory(Bench& bench) {
  constexpr const char* kRecipe = "recipes/lab.toml";
  if (!std::filesystem::exists(kRecipe)) {
    bench.say("11: skipped; run it where recipes/lab.toml is");
    return;
  }
  Laboratory lab(kRecipe);
  lab.routed_rollout();
  lab.sampled_rollout();
  const std::string check =
      agreed("tokens of the two rollouts that differ", lab.same_tokens() ? 0.0 : 1.0, 0);
  const std::string shape = fmt::format("laboratory, {} tokens", lab.tokens());
  bench.say("11: learner and whole step, " + shape);
  const auto add = [&](const char* id, const char* what, const std::vector<double>& medians) {
    bench.add({.id = id,
               .what = what,
               .shape = shape,
               .threads = bench.options().threads,
               .ours = medians[0],
               .other = medians[1],
               .target = 1,
               .check = check});
  };
  const int rounds = 3 * bench.options().rounds;
  if (bench.wants("2"))
    add("2", "learner step, RouteOPD / sampled-RKL",
        interleaved_medians(rounds, {[&] { lab.routed_learn(); }, [&] { lab.sampled_learn(); }}));
  if (bench.wants("11"))
    add("11", "whole step, RouteOPD / sampled-RKL",
        interleaved_medians(rounds, {[&] {
                                       lab.routed_rollout();
                                       lab.routed_learn();
                                     },
                                     [&] {
                                       lab.sampled_rollout();
                                       lab.sampled_learn();
                                     }}));
}

}  // namespace

void bench_training(Bench& bench) {
  at::set_num_threads(bench.options().threads);
  if (bench.wants("2") || bench.wants("2m")) bench_step(bench);
  if (bench.wants("10")) bench_packing(bench);
  if (bench.wants("2") || bench.wants("11")) bench_laboratory(bench);
}

}  // namespace routeopd::app
