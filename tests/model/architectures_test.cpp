// Every architecture against transformers (goldens of make_architecture_goldens.py): log-probabilities,
// greedy continuations, gradients with and without recomputation, and files in each type, whole and in
// shards.
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "model/decoder_testing.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/system.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/formats/weight_files.h"
#include "testing_files.h"
#include "tiny_models.h"

namespace routeopd::model {
namespace {

constexpr double kGradientTolerance = 1e-4;  // relative, of each parameter
constexpr int kSequences = 3;

class EveryArchitecture : public ::testing::TestWithParam<const char*> {
 protected:
  EveryArchitecture() {
    for (int i = 0; i < kSequences; ++i)
      sequences_.push_back(ids_of(tensor_of(expected_, fmt::format("ids_{}", i))));
  }

  // The mean log-probability of the tokens after the first of each sequence, and its gradients.
  void accumulate_gradients(Activations activations) {
    const c10::AutoGradMode with_grad(true);
    for (Parameter& parameter : parameters(model_)) {
      parameter.tensor.requires_grad_(true);
      parameter.tensor.mutable_grad().reset();
    }
    const PackedBatch batch = pack(sequences_);
    const at::Tensor logprobs = logprobs_of(model_, packed_hidden(model_, batch, activations));
    std::vector<std::int64_t> places, targets;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      for (std::size_t j = 1; j < sequences_[i].size(); ++j) {
        places.push_back(batch.starts_S1[i] + static_cast<std::int64_t>(j) - 1);
        targets.push_back(sequences_[i][j]);
      }
    }
    logprobs.index_select(0, at::tensor(places, at::kLong))
        .gather(1, at::tensor(targets, at::kLong).unsqueeze(1))
        .mean()
        .backward();
  }

  std::filesystem::path directory_ = architecture_directory(GetParam());
  formats::Safetensors expected_{directory_ / "expected.safetensors"};
  std::vector<std::vector<std::int32_t>> sequences_;
  Model model_ = load_model(directory_);
};

TEST_P(EveryArchitecture, LogProbabilitiesEqualTransformers) {
  const c10::NoGradGuard no_grad;
  const PackedBatch batch = pack(sequences_);
  const at::Tensor all = logprobs_of(model_, packed_hidden(model_, batch));
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const at::Tensor mine = all.slice(0, batch.starts_S1[i], batch.starts_S1[i + 1]);
    EXPECT_LT(largest_difference(mine, tensor_of(expected_, fmt::format("logprobs_{}", i))), kTolerance);
  }
}

TEST_P(EveryArchitecture, GreedyContinuationEqualsTransformers) {
  model_.config.eos_token_ids.clear();  // the goldens do not stop at an end
  engine::LocalEngine engine(model_, static_cast<std::int32_t>(model_.config.vocab_size));
  const std::vector<std::int32_t> expected = ids_of(tensor_of(expected_, "greedy"));
  Prompt prompt;
  prompt.ids = sequences_.back();
  const Rollout rollout = engine.generate(
      {&prompt, 1}, {.decoding = {.temperature = 0}, .max_new_tokens = std::ssize(expected)}, {});
  EXPECT_EQ(rollout.id_N, expected);
}

TEST_P(EveryArchitecture, GradientsEqualTransformers) {
  for (const Activations activations : {Activations::kKeep, Activations::kRecompute}) {
    accumulate_gradients(activations);
    for (const Parameter& parameter : parameters(model_)) {
      const at::Tensor expected = tensor_of(expected_, "grad." + parameter.name);
      EXPECT_LT(relative_error(parameter.tensor.grad(), expected), kGradientTolerance) << parameter.name;
    }
  }
}

TEST_P(EveryArchitecture, RecomputedGradientsAreTheSame) {
  accumulate_gradients(Activations::kKeep);
  std::vector<at::Tensor> kept;
  for (const Parameter& parameter : parameters(model_)) kept.push_back(parameter.tensor.grad().clone());
  accumulate_gradients(Activations::kRecompute);
  const std::vector<Parameter> all = parameters(model_);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(at::equal(all[i].tensor.grad(), kept[i])) << all[i].name;
}

TEST_P(EveryArchitecture, FrozenWeightsTakeNoPartInRecomputation) {
  const c10::AutoGradMode with_grad(true);
  for (Parameter& parameter : parameters(model_)) parameter.tensor.requires_grad_(false);
  model_.layers[1].up_FH.requires_grad_(true);
  const PackedBatch batch = pack(sequences_);
  packed_hidden(model_, batch, Activations::kRecompute).sum().backward();
  EXPECT_GT(model_.layers[1].up_FH.grad().abs().max().item<double>(), 0);
  EXPECT_FALSE(model_.layers[0].up_FH.grad().defined());
}

TEST_P(EveryArchitecture, SavedInEachTypeAndInShardsIsTheSame) {
  const TemporaryDirectory temporary;
  const formats::WeightFiles before(directory_);
  at::ScalarType stored = at::kFloat;
  if (before.tensors().begin()->second.tensor->type == formats::TensorType::kBF16) stored = at::kBFloat16;
  if (before.tensors().begin()->second.tensor->type == formats::TensorType::kF16) stored = at::kHalf;
  for (const std::int64_t shard_bytes : {std::int64_t{1} << 40U, std::int64_t{5000}, std::int64_t{1}}) {
    for (const at::ScalarType dtype : {at::kFloat, stored}) {
      const auto target = temporary.path() / fmt::format("{}_{}", at::toString(dtype), shard_bytes);
      save_model(model_, target, directory_, {.dtype = dtype, .shard_bytes = shard_bytes});
      EXPECT_EQ(formats::WeightFiles(target).files().size() > 1, shard_bytes < 1000000);
      const Model again = load_model(target);
      const auto mine = parameters(model_), theirs = parameters(again);
      ASSERT_EQ(mine.size(), theirs.size());
      for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(at::equal(mine[i].tensor, theirs[i].tensor));
      EXPECT_EQ(again.config.dtype, dtype == at::kFloat ? "float32" : again.config.dtype);
      if (dtype == stored) {
        EXPECT_EQ(bytes_in(target / "config.json"), bytes_in(directory_ / "config.json"));
      }
      std::filesystem::remove_all(target);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, EveryArchitecture,
                         ::testing::Values("qwen2", "qwen2_shards", "qwen3_bias", "llama", "llama3",
                                           "llama_bias", "mistral", "olmo2", "gemma", "gemma_shards"),
                         [](const auto& name) { return std::string(name.param); });

// One block's activations at a time: what a deep model keeps falls to a small share.
TEST(Recompute, KeepsLittle) {
  formats::ModelConfig config = formats::read_model_config(architecture_directory("llama"));
  config.num_hidden_layers = 24;
  config.intermediate_size = 512;
  Model model = random_model(config, 1);
  for (Parameter& parameter : parameters(model)) parameter.tensor.requires_grad_(true);
  std::vector<std::int32_t> ids(2048);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 40);
  const PackedBatch batch = pack({&ids, 1});
  const auto growth = [&](Activations activations) {
    const std::int64_t before = resident_bytes();
    const at::Tensor hidden = packed_hidden(model, batch, activations);
    return resident_bytes() - before;
  };
  growth(Activations::kKeep);  // the allocator's own room
  const std::int64_t kept = growth(Activations::kKeep), recomputed = growth(Activations::kRecompute);
  EXPECT_LT(recomputed, kept / 4) << "recomputed " << recomputed << ", kept " << kept;
}

TEST(WeightFiles, RefusesShardsThatDoNotFitTheirIndex) {
  const TemporaryDirectory temporary;
  const auto broken = [&](const auto& change) {
    const auto target = temporary.path() / "shards";
    std::filesystem::remove_all(target);
    std::filesystem::copy(architecture_directory("qwen2_shards"), target);
    Json index = Json::parse(bytes_in(target / formats::kWeightsIndex));
    change(index, target);
    temporary.write("shards/" + std::string(formats::kWeightsIndex), index.dump());
    return error_of([&] { load_model(target); });
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(broken([](Json&, const auto&) {}), "");
  EXPECT_THAT(broken([](Json&, const auto& target) {
                std::filesystem::remove(target / "model-00002-of-00003.safetensors");
              }),
              HasSubstr("model-00002-of-00003.safetensors: expected this shard beside the index, got none"));
  EXPECT_THAT(broken([](Json& index, const auto&) { index["weight_map"].erase("model.norm.weight"); }),
              HasSubstr("expected the index to name this file for model.norm.weight, got nothing"));
  EXPECT_THAT(broken([](Json& index, const auto&) {
                index["weight_map"]["model.more.weight"] = "model-00001-of-00003.safetensors";
              }),
              HasSubstr("expected tensor model.more.weight in it"));
  for (const char* name : {"../model.safetensors", "/etc/passwd", "", "weights.bin", "a/b.safetensors",
                           "evil.bin\n.safetensors"}) {
    EXPECT_THAT(
        broken([&](Json& index, const auto&) { index["weight_map"]["model.norm.weight"] = name; }),
        HasSubstr("model.norm.weight: expected the name of a .safetensors file in the same directory"));
  }
  EXPECT_THAT(broken([](Json& index, const auto&) { index["weight_map"]["model.norm.weight"] = 3; }),
              HasSubstr("model.norm.weight: expected the name of a file"));
  EXPECT_THAT(broken([](Json& index, const auto&) { index.erase("weight_map"); }),
              HasSubstr("weight_map: expected an object"));
}

TEST(WeightFiles, NeverOpensPickles) {
  const TemporaryDirectory temporary;
  std::filesystem::copy_file(architecture_directory("llama") / "config.json",
                             temporary.path() / "config.json");
  EXPECT_THAT(error_of([&] { load_model(temporary.path()); }), ::testing::HasSubstr("got neither"));
  temporary.write("pytorch_model.bin", "x");
  EXPECT_THAT(
      error_of([&] { load_model(temporary.path()); }),
      ::testing::HasSubstr("got pytorch_model.bin, a pickle, which can run code and is never opened"));
}

// Norms that multiply by one: zero where the architecture adds one.
TEST(RandomModel, BeginsWithNormsOfOne) {
  for (const char* name : {"llama", "olmo2", "gemma"}) {
    const formats::ModelConfig config = formats::read_model_config(architecture_directory(name));
    const double offset = config.architecture().norm_offset;
    int norms = 0;
    for (const Parameter& parameter : parameters(random_model(config, 1))) {
      if (!parameter.name.ends_with("norm.weight")) continue;
      EXPECT_TRUE((parameter.tensor + offset).eq(1).all().item<bool>()) << name << ": " << parameter.name;
      ++norms;
    }
    EXPECT_EQ(norms, name == std::string("olmo2") ? 9 : 5) << name;
  }
}

TEST(Trainable, IsEveryWeight) {
  const Model model = load_model(architecture_directory("gemma"));
  const auto all = parameters(model), moved = trainable(model);
  ASSERT_EQ(all.size(), moved.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(all[i].tensor.is_same(moved[i].tensor));
}

// The memory plan counts what autograd keeps: one more [T, H] for each norm around a branch.
TEST(ActivationFloats, CountNorms) {
  for (const char* name : {"llama", "olmo2", "gemma"}) {
    const formats::ModelConfig config = formats::read_model_config(architecture_directory(name));
    EXPECT_EQ(activation_floats(config), 4 * config.hidden_size + 7 * config.query_size() +
                                             5 * config.key_size() + 4 * config.intermediate_size);
  }
}

TEST(LoadModel, StopsWhenASignalComes) {
  catch_interrupts();
  std::raise(SIGINT);
  EXPECT_THROW(load_model(architecture_directory("llama")), Interrupted);
  EXPECT_THROW(load_model(architecture_directory("qwen2_shards")), Interrupted);
  catch_interrupts();  // forgets that one
  load_model(architecture_directory("llama"));
}

TEST(LoadModel, RefusesATiedHeadThatIsAnother) {
  const TemporaryDirectory temporary;
  std::filesystem::copy_file(architecture_directory("qwen2") / "config.json",
                             temporary.path() / "config.json");
  const Model model = load_model(architecture_directory("qwen2"));
  std::vector<Parameter> both = parameters(model);
  both.push_back({"lm_head.weight", model.embed_VH});
  save_tensors(temporary.path() / "model.safetensors", both);
  EXPECT_TRUE(at::equal(load_model(temporary.path()).embed_VH, model.embed_VH));
  both.back().tensor = model.embed_VH + 1;
  save_tensors(temporary.path() / "model.safetensors", both);
  EXPECT_THAT(
      error_of([&] { load_model(temporary.path()); }),
      ::testing::HasSubstr("lm_head.weight differs from model.embed_tokens.weight, though config.json ties"));
}

// Bytes of a file may stand at any address: a header whose length is odd moves them all.
TEST(LoadModel, TakesTensorsAtOddAddresses) {
  const TemporaryDirectory temporary;
  std::filesystem::copy(architecture_directory("llama"), temporary.path() / "odd");
  const std::string file = bytes_in(temporary.path() / "odd/model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::string header = file.substr(sizeof length, length) + " ";
  const std::uint64_t longer = header.size();
  const std::string prefix(reinterpret_cast<const char*>(&longer), sizeof longer);
  temporary.write("odd/model.safetensors", prefix + header + file.substr(sizeof length + length));
  EXPECT_TRUE(at::equal(load_model(temporary.path() / "odd").embed_VH,
                        load_model(architecture_directory("llama")).embed_VH));
}

}  // namespace
}  // namespace routeopd::model
