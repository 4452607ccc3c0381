// /v1/generate, /v1/score and /v1/gather on a real engine: the bits are those of the engine asked directly,
// and sizes that lie are refused or answered with nothing.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/binary.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <limits>

#include "routeopd/formats/safetensors.h"
#include "serve_testing.h"
#include "tiny_models.h"

namespace routeopd::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Settings = std::map<std::string, std::string>;
using Shape = std::vector<std::int64_t>;

constexpr std::int32_t kBinaryIds = 90;  // fewer than the 96 rows of the embedding

template <class T>
formats::TensorView tensor(std::string name, const std::vector<T>& values, Shape shape) {
  const auto type = std::is_same_v<T, float> ? formats::TensorType::kF32 : formats::TensorType::kI32;
  return {std::move(name), type, std::move(shape), std::as_bytes(std::span(values))};
}

template <class T>
formats::TensorView tensor(std::string name, const std::vector<T>& values) {
  return tensor(std::move(name), values, {std::ssize(values)});
}

// Floats as they are stored: NaN equals itself.
std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> all;
  for (const float value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

struct BinaryAnswer {
  std::shared_ptr<KeptReply> reply;
  formats::SafetensorsIndex index{};  // of the reply's bytes

  template <class T>
  std::vector<T> values(const std::string& name) const {
    for (const formats::TensorView& each : index.tensors) {
      if (each.name != name) continue;
      std::vector<T> all(each.bytes.size() / sizeof(T));
      if (!all.empty()) std::memcpy(all.data(), each.bytes.data(), each.bytes.size());
      return all;
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  std::vector<std::int32_t> ids(const std::string& name) const { return values<std::int32_t>(name); }
  std::vector<std::uint32_t> bits_of(const std::string& name) const { return bits(values<float>(name)); }
  Shape shape(const std::string& name) const {
    for (const formats::TensorView& each : index.tensors)
      if (each.name == name) return each.shape;
    return {-1};
  }
};

class Binary : public ::testing::Test {
 protected:
  Binary() { add_binary_routes(server_.service, {.queue = queue_, .model = model_, .reload_root = {}}); }
  void TearDown() override { queue_.stop(std::chrono::milliseconds(0)); }

  BinaryAnswer ask(const std::string& path, const std::vector<formats::TensorView>& tensors,
                   const Settings& settings = {}) {
    BinaryAnswer answer{server_.ask("POST", path, formats::safetensors_bytes(tensors, settings))};
    EXPECT_TRUE(answer.reply->wait());
    const std::string& text = answer.reply->text;
    if (answer.reply->status == 200)
      answer.index = formats::read_safetensors(std::as_bytes(std::span(text.data(), text.size())));
    return answer;
  }

  ServiceOptions options() const {
    ServiceOptions all;
    all.version = "0.1.0";
    all.model.name = "m";
    all.model.real_ids = kBinaryIds;
    all.model.hidden_size = model_.config.hidden_size;
    all.model.positions = model_.config.max_position_embeddings;
    all.model.eos_ids = model_.config.eos_token_ids;
    return all;
  }

  model::Model model_ = model::load_model(tiny("student"));
  engine::LocalEngine reference_{model_, kBinaryIds}, engine_{model_, kBinaryIds};
  engine::RequestQueue queue_{engine_, {.weights_version = 4}};
  TestServer server_{options(), backend_of(queue_)};
};

// Three prompts, of which the first and the last read the same, with several responses each.
const std::vector<std::vector<std::int32_t>> kBinaryPrompts = {{5, 6, 7}, {8, 9, 10, 11, 12}, {5, 6, 7}};
const std::vector<std::uint32_t> kNumbers = {7, 16'777'215, 3};
const std::vector<std::vector<std::int32_t>> kSamples = {{0, 2}, {1}, {0, 1, 2}};

template <class T>
std::vector<std::int32_t> joined(const std::vector<std::vector<T>>& parts) {
  std::vector<std::int32_t> all;
  for (const std::vector<T>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<std::int32_t> lengths_of(const std::vector<std::vector<std::int32_t>>& parts) {
  std::vector<std::int32_t> all;
  for (const auto& part : parts) all.push_back(static_cast<std::int32_t>(part.size()));
  return all;
}

Rollout written_by(engine::LocalEngine& engine, const engine::Capture& capture) {
  std::vector<Prompt> prompts(kBinaryPrompts.size());
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    prompts[p].ids = kBinaryPrompts[p];
    prompts[p].number = kNumbers[p];
  }
  const engine::Sampling sampling{.n = 3,
                                  .decoding = {.temperature = 1.5, .top_p = 0.95, .top_k = 60},
                                  .max_new_tokens = 40,
                                  .seed = 11,
                                  .step = 9,
                                  .samples_P = kSamples};
  return engine.generate(prompts, sampling, capture);
}

const Settings kSampling = {{"n", "3"},     {"temperature", "1.5"}, {"top_p", "0.95"},       {"top_k", "60"},
                            {"seed", "11"}, {"step", "9"},          {"max_new_tokens", "40"}};

Settings with(Settings settings, const Settings& more) {
  settings.insert(more.begin(), more.end());
  return settings;
}

// Five columns of ids at each state, with gaps.
std::vector<std::int32_t> gather_ids(const Rollout& rollout) {
  std::vector<std::int32_t> ids;
  for (std::int32_t n = 0; n < rollout.states(); ++n) {
    const std::int32_t taken = rollout.id_N[static_cast<std::size_t>(n)];
    for (const std::int32_t id : {taken, (7 * n) % kBinaryIds, n % 3 == 0 ? -1 : 2, kBinaryIds - 1, 0})
      ids.push_back(id);
  }
  return ids;
}
constexpr std::int64_t kColumns = 5;

TEST_F(Binary, WhatIsWrittenAndGatheredHasTheEnginesBits) {
  const Rollout wanted = written_by(reference_, {.k = 8, .hidden = true, .entropy = true});
  const std::int64_t states = wanted.states();
  const std::vector<std::int32_t> ids = joined(kBinaryPrompts), lengths = lengths_of(kBinaryPrompts);
  const std::vector<std::int32_t> numbers(kNumbers.begin(), kNumbers.end());
  const std::vector<std::int32_t> samples = joined(kSamples), counts = lengths_of(kSamples);
  const std::vector<formats::TensorView> prompts = {tensor("ids", ids), tensor("lengths", lengths),
                                                    tensor("prompts", numbers), tensor("samples", samples),
                                                    tensor("sample_counts", counts)};
  const BinaryAnswer got =
      ask("/v1/generate", prompts, with(kSampling, {{"k", "8"}, {"hidden", "true"}, {"entropy", "true"}}));
  ASSERT_EQ(got.reply->status, 200) << got.reply->text;
  EXPECT_EQ(got.reply->header("x-weights-version"), "4");
  EXPECT_EQ(got.index.metadata.at("weights_version"), "4");
  EXPECT_EQ(got.ids("ids"), wanted.id_N);
  EXPECT_THAT(got.ids("prompts"), ElementsAre(0, 0, 1, 2, 2, 2));
  EXPECT_EQ(got.ids("samples"), samples);
  std::vector<std::int32_t> written, finishes;
  for (const Response& response : wanted.responses_B) {
    written.push_back(static_cast<std::int32_t>(response.length));
    finishes.push_back(response.finish == Finish::kStop ? 0 : 1);
  }
  EXPECT_EQ(got.ids("lengths"), written);
  EXPECT_EQ(got.ids("finish"), finishes);
  EXPECT_THAT(finishes, ::testing::Contains(1));
  EXPECT_EQ(got.bits_of("logprobs"), bits(wanted.logprob_N));
  EXPECT_EQ(got.bits_of("logsumexp"), bits(wanted.logsumexp_N));
  EXPECT_EQ(got.bits_of("entropy"), bits(wanted.entropy_N));
  EXPECT_EQ(got.ids("top_ids"), wanted.top_ids_NK);
  EXPECT_EQ(got.bits_of("top_logits"), bits(wanted.top_logits_NK));
  EXPECT_THAT(got.shape("top_ids"), ElementsAre(states, 8));
  EXPECT_EQ(got.bits_of("hidden"), bits(wanted.hidden_NH));
  EXPECT_THAT(got.shape("hidden"), ElementsAre(states, model_.config.hidden_size));

  const std::vector<std::int32_t> places = gather_ids(wanted);
  const std::vector<float> hidden = got.values<float>("hidden");
  const std::vector<formats::TensorView> question = {tensor("hidden", hidden, got.shape("hidden")),
                                                     tensor("gather_ids", places, {states, kColumns})};
  const BinaryAnswer gathered = ask("/v1/gather", question, {{"weights_version", "4"}});
  ASSERT_EQ(gathered.reply->status, 200) << gathered.reply->text;
  EXPECT_THAT(gathered.shape("gathered_logits"), ElementsAre(states, kColumns));
  EXPECT_EQ(gathered.bits_of("gathered_logits"),
            bits(reference_.gather(wanted, places, kColumns).gathered_NG));
  EXPECT_EQ(ask("/v1/gather", question, {{"weights_version", "3"}}).reply->status, 409);
}

TEST_F(Binary, WithoutAddressesPromptsAreNumberedAndAllSamplesWritten) {
  const std::vector<std::int32_t> ids = joined(kBinaryPrompts), lengths = lengths_of(kBinaryPrompts);
  const BinaryAnswer got =
      ask("/v1/generate", {tensor("ids", ids), tensor("lengths", lengths)},
          {{"n", "2"}, {"seed", "11"}, {"max_new_tokens", "20"}, {"ignore_eos", "true"}, {"k", "4096"}});
  ASSERT_EQ(got.reply->status, 200) << got.reply->text;
  std::vector<Prompt> prompts(kBinaryPrompts.size());
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    prompts[p].ids = kBinaryPrompts[p];
    prompts[p].number = static_cast<std::uint32_t>(p);
  }
  const Rollout wanted = reference_.generate(
      prompts, {.n = 2, .max_new_tokens = 20, .seed = 11, .ignore_eos = true}, {.k = 4096});
  EXPECT_EQ(got.ids("ids"), wanted.id_N);
  EXPECT_EQ(got.bits_of("logprobs"), bits(wanted.logprob_N));
  EXPECT_THAT(got.ids("samples"), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_EQ(got.shape("hidden"), Shape{-1});
  EXPECT_THAT(got.shape("top_ids"), ElementsAre(wanted.states(), kBinaryIds));  // all there are
  EXPECT_EQ(got.bits_of("top_logits"), bits(wanted.top_logits_NK));
}

TEST_F(Binary, ScoresHaveTheEnginesBits) {
  const Rollout rollout = written_by(reference_, {});
  const std::int64_t states = rollout.states();
  std::vector<std::int32_t> ids, lengths, prompt_lengths;
  for (const Response& response : rollout.responses_B) {
    const std::vector<std::int32_t>& prompt = rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)];
    const auto tokens = std::span(rollout.id_N)
                            .subspan(static_cast<std::size_t>(response.first_state),
                                     static_cast<std::size_t>(response.length));
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    prompt_lengths.push_back(static_cast<std::int32_t>(prompt.size()));
    lengths.push_back(static_cast<std::int32_t>(prompt.size() + tokens.size()));
  }
  const std::vector<std::int32_t> places = gather_ids(rollout);
  const std::vector<formats::TensorView> question = {tensor("ids", ids), tensor("lengths", lengths),
                                                     tensor("prompt_lengths", prompt_lengths),
                                                     tensor("gather_ids", places, {states, kColumns})};
  const engine::StateValues again = reference_.gather(rollout, places, kColumns);  // without hidden states
  const engine::StateValues own = reference_.gather(rollout, rollout.id_N, 1);
  for (const std::int32_t k : {0, 8}) {
    for (const bool hidden : {false, true}) {
      const engine::StateValues wanted = reference_.score(
          rollout, {.k = k, .gather_ids_NG = places, .gather_columns = kColumns, .hidden = hidden});
      const BinaryAnswer got =
          ask("/v1/score", question, {{"k", std::to_string(k)}, {"hidden", hidden ? "true" : "false"}});
      ASSERT_EQ(got.reply->status, 200) << got.reply->text;
      EXPECT_EQ(got.bits_of("gathered_logits"), bits(again.gathered_NG));
      EXPECT_EQ(got.bits_of("gathered_logits"), bits(wanted.gathered_NG));
      EXPECT_EQ(got.bits_of("logsumexp"), bits(wanted.logsumexp_N));
      std::vector<float> logprobs;
      for (std::size_t n = 0; n < wanted.logsumexp_N.size(); ++n)
        logprobs.push_back(own.gathered_NG[n] - wanted.logsumexp_N[n]);
      EXPECT_EQ(got.bits_of("logprobs"), bits(logprobs));
      EXPECT_EQ(got.shape("top_ids"), k > 0 ? Shape({states, k}) : Shape{-1});
      if (k > 0) {
        EXPECT_EQ(got.ids("top_ids"), wanted.top_ids_NK);
        EXPECT_EQ(got.bits_of("top_logits"), bits(wanted.top_logits_NK));
      }
      if (!hidden) continue;
      // What /v1/gather makes of these hidden states is what the engine makes of its own.
      Rollout captured = rollout;
      captured.hidden_size = wanted.hidden_size;
      captured.hidden_NH = wanted.hidden_NH;
      EXPECT_EQ(got.bits_of("hidden"), bits(wanted.hidden_NH));
      const std::vector<float> given = got.values<float>("hidden");
      const BinaryAnswer gathered = ask("/v1/gather", {tensor("hidden", given, got.shape("hidden")),
                                                       tensor("gather_ids", places, {states, kColumns})});
      EXPECT_EQ(gathered.bits_of("gathered_logits"),
                bits(reference_.gather(captured, places, kColumns).gathered_NG));
    }
  }
}

TEST_F(Binary, WithoutPromptLengthsEveryTokenAfterTheFirstIsScored) {
  Rollout rollout;
  rollout.prompt_ids_P = {{5}, {8}};
  rollout.responses_B = {{.prompt = 0, .first_state = 0, .length = 3},
                         {.prompt = 1, .first_state = 3, .length = 1}};
  rollout.id_N = {6, 7, 89, 4};
  const std::vector<std::int32_t> ids = {5, 6, 7, 89, 33, 8, 4}, lengths = {4, 1, 2};
  const BinaryAnswer got =
      ask("/v1/score", {tensor("ids", ids), tensor("lengths", lengths)}, {{"k", "4096"}});
  ASSERT_EQ(got.reply->status, 200) << got.reply->text;
  const engine::StateValues wanted = reference_.score(rollout, {.k = 4096});
  EXPECT_THAT(got.shape("top_ids"), ElementsAre(4, kBinaryIds));  // all there are
  EXPECT_EQ(got.ids("top_ids"), wanted.top_ids_NK);
  EXPECT_EQ(got.bits_of("top_logits"), bits(wanted.top_logits_NK));
  EXPECT_EQ(got.bits_of("logsumexp"), bits(wanted.logsumexp_N));
  EXPECT_EQ(got.shape("gathered_logits"), Shape{-1});
}

TEST_F(Binary, NothingAskedForIsAnsweredWithNothing) {
  const std::vector<std::int32_t> none, one = {5}, length = {1};
  const std::vector<float> no_rows, two_rows(2 * static_cast<std::size_t>(model_.config.hidden_size), 0.5F);
  const std::int64_t width = model_.config.hidden_size;
  for (const char* path : {"/v1/score", "/v1/generate"}) {
    const BinaryAnswer empty =
        ask(path, {tensor("ids", none), tensor("lengths", none)}, {{"hidden", "true"}});
    ASSERT_EQ(empty.reply->status, 200) << empty.reply->text;
    EXPECT_THAT(empty.ids("logprobs"), IsEmpty());
    EXPECT_EQ(empty.reply->header("x-weights-version"), "4");
  }
  constexpr std::int64_t kWide = 1LL << 60U;
  const BinaryAnswer alone =
      ask("/v1/score", {tensor("ids", one), tensor("lengths", length), tensor("prompt_lengths", length),
                        tensor("gather_ids", none, {0, 3})});
  EXPECT_THAT(alone.ids("logprobs"), IsEmpty()) << alone.reply->text;
  const BinaryAnswer too_wide =
      ask("/v1/score", {tensor("ids", one), tensor("lengths", length), tensor("prompt_lengths", length),
                        tensor("gather_ids", none, {0, kWide})});
  EXPECT_EQ(too_wide.reply->status, 400);

  const std::vector<std::int32_t> three = {5, 6, 7}, all = {3};
  const BinaryAnswer columns =
      ask("/v1/score", {tensor("ids", three), tensor("lengths", all), tensor("gather_ids", none, {2, 0})});
  EXPECT_THAT(columns.shape("logprobs"), ElementsAre(2)) << columns.reply->text;
  EXPECT_EQ(columns.shape("gathered_logits"), Shape{-1});

  for (const auto& [rows, wide] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 3}, {0, kWide}, {2, 0}}) {
    const BinaryAnswer gathered =
        ask("/v1/gather", {tensor("hidden", rows == 0 ? no_rows : two_rows, {rows, width}),
                           tensor("gather_ids", none, {rows, wide})});
    ASSERT_EQ(gathered.reply->status, 200) << gathered.reply->text;
    EXPECT_THAT(gathered.shape("gathered_logits"), ElementsAre(rows, wide));
  }
}

TEST_F(Binary, SizesThatLieAreRefused) {
  const std::int64_t width = model_.config.hidden_size;
  const std::vector<float> hidden(2 * static_cast<std::size_t>(width + 1), 0.5F),
      right(2 * static_cast<std::size_t>(width));
  const std::vector<std::int32_t> none, zero = {0}, two = {1, 1}, three = {5, 6, 7}, length = {3},
                                        long_one = {4}, short_one = {2}, far = {kBinaryIds, 1}, down = {1, 0},
                                        wide(2 * static_cast<std::size_t>(width));
  const auto prompts = [&](std::vector<formats::TensorView> more) {
    more.insert(more.begin(), {tensor("ids", three), tensor("lengths", length)});
    return more;
  };
  struct Case {
    const char* path;
    std::vector<formats::TensorView> tensors;
    const char* words;
    Settings settings{};
  };
  const formats::TensorView rows = tensor("hidden", right, {2, width});
  const std::vector<Case> cases = {
      {"/v1/gather",
       {tensor("hidden", hidden, {2, width + 1}), tensor("gather_ids", two, {2, 1})},
       "hidden: expected F32"},
      {"/v1/gather",
       {tensor("hidden", right, {2 * width}), tensor("gather_ids", two, {2, 1})},
       "hidden: expected F32"},
      {"/v1/gather",
       {tensor("hidden", right, {1, 2, width}), tensor("gather_ids", two, {2, 1})},
       "hidden: expected F32"},
      {"/v1/gather",
       {tensor("hidden", wide, {2, width}), tensor("gather_ids", two, {2, 1})},
       "hidden: expected F32"},
      {"/v1/gather", {tensor("gather_ids", two, {2, 1})}, "hidden: expected a tensor"},
      {"/v1/gather", {rows}, "gather_ids: expected a tensor"},
      {"/v1/gather", {rows, tensor("gather_ids", three, {3, 1})}, "gather_ids: expected [2, any]"},
      {"/v1/gather", {rows, tensor("gather_ids", none, {0, 1})}, "gather_ids: expected [2, any]"},
      {"/v1/gather", {rows, tensor("gather_ids", two)}, "gather_ids: expected [2, any]"},
      {"/v1/gather", {rows, tensor("gather_ids", far, {2, 1})}, "gather_ids: expected numbers from -1"},
      {"/v1/score", {tensor("ids", three), tensor("lengths", none)}, "lengths: say 0 ids, but 3"},
      {"/v1/score", {tensor("ids", none), tensor("lengths", length)}, "lengths: say more ids"},
      {"/v1/score", {tensor("ids", three), tensor("lengths", long_one)}, "lengths: say more ids"},
      {"/v1/score", {tensor("ids", three), tensor("lengths", short_one)}, "lengths: say 2 ids, but 3"},
      {"/v1/score", {tensor("ids", three), tensor("lengths", zero)}, "lengths: expected numbers from 1"},
      {"/v1/score", prompts({tensor("prompt_lengths", none)}), "prompt_lengths: expected 1 numbers"},
      {"/v1/score", prompts({tensor("prompt_lengths", zero)}), "prompt_lengths: expected numbers from 1"},
      {"/v1/score", prompts({tensor("prompt_lengths", long_one)}), "prompt_lengths: expected at most"},
      {"/v1/score", prompts({tensor("gather_ids", three, {3, 1})}), "gather_ids: expected [2, any]"},
      {"/v1/score", prompts({}), "k: expected", {{"k", "4097"}}},
      {"/v1/generate", {tensor("ids", three), tensor("lengths", none)}, "lengths: say 0 ids, but 3"},
      {"/v1/generate", prompts({tensor("prompts", two)}), "prompts: expected 1 numbers"},
      {"/v1/generate", prompts({tensor("samples", zero)}), "expected both or none"},
      {"/v1/generate", prompts({tensor("sample_counts", two)}), "expected both or none"},
      {"/v1/generate", prompts({tensor("samples", none), tensor("sample_counts", zero)}),
       "sample_counts: expected numbers from 1"},
      {"/v1/generate",
       prompts({tensor("samples", zero), tensor("sample_counts", short_one)}),
       "say more ids",
       {{"n", "2"}}},
      {"/v1/generate",
       prompts({tensor("samples", down), tensor("sample_counts", short_one)}),
       "ascending",
       {{"n", "2"}}},
      {"/v1/generate",
       prompts({tensor("samples", two), tensor("sample_counts", short_one)}),
       "ascending",
       {{"n", "2"}}},
      {"/v1/generate", prompts({tensor("samples", down), tensor("sample_counts", short_one)}),
       "samples: expected numbers from 0 to 0"},
      {"/v1/generate", prompts({}), "in all", {{"n", "256"}, {"max_new_tokens", "1000000"}, {"k", "4000"}}},
      {"/v1/generate", prompts({}), "positions", {{"max_new_tokens", "1000"}}},
      {"/v1/generate", prompts({}), "step: expected", {{"step", "16777216"}}},
  };
  for (const Case& each : cases) {
    const BinaryAnswer got = ask(each.path, each.tensors, each.settings);
    EXPECT_EQ(got.reply->status, 400) << each.path << " " << each.words;
    EXPECT_THAT(got.reply->text, HasSubstr(each.words)) << each.path;
  }
  EXPECT_EQ(queue_.stats().running + queue_.stats().waiting, 0);
  EXPECT_EQ(ask("/v1/score", prompts({})).reply->status, 200);
}

}  // namespace
}  // namespace routeopd::serve
