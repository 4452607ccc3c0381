// The decoder against transformers on tiny random checkpoints: training forward, decoding, and files.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/decoder.h"

#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/decoder_testing.h"
#include "routeopd/model/inference/inference_decoder.h"
#include "testing_files.h"
#include "tiny_models.h"

namespace routeopd::model {
namespace {

constexpr int kDecoderSequences = 4;

struct Golden {
  std::vector<std::vector<std::int32_t>> sequences;
  std::vector<at::Tensor> logprobs;  // [L, V] each
};

Golden golden_of(const std::string& name) {
  const formats::Safetensors file(tiny("forward_" + name + ".safetensors"));
  Golden golden;
  for (int i = 0; i < kDecoderSequences; ++i) {
    golden.sequences.push_back(ids_of(tensor_of(file, fmt::format("ids_{}", i))));
    golden.logprobs.push_back(tensor_of(file, fmt::format("logprobs_{}", i)));
  }
  return golden;
}

class EveryCheckpoint : public ::testing::TestWithParam<const char*> {
 protected:
  const c10::NoGradGuard no_grad_;
  Golden golden_ = golden_of(GetParam());
  Model model_ = load_model(tiny(GetParam()));
};

TEST_P(EveryCheckpoint, PackedForwardEqualsTransformers) {
  const PackedBatch batch = pack(golden_.sequences);
  const at::Tensor all = logprobs_of(model_, packed_hidden(model_, batch));
  for (std::size_t i = 0; i < golden_.sequences.size(); ++i) {
    const at::Tensor mine = all.slice(0, batch.starts_S1[i], batch.starts_S1[i + 1]);
    EXPECT_LT(largest_difference(mine, golden_.logprobs[i]), kTolerance) << "sequence " << i;
  }
}

TEST_P(EveryCheckpoint, PackingDoesNotMatter) {
  for (std::size_t i = 0; i < golden_.sequences.size(); ++i) {
    const at::Tensor alone = logprobs_of(model_, packed_hidden(model_, pack({&golden_.sequences[i], 1})));
    EXPECT_LT(largest_difference(alone, golden_.logprobs[i]), kTolerance) << "sequence " << i;
  }
}

// Sequences of 2, 40 and 150 tokens fall into several groups of attention.
TEST_P(EveryCheckpoint, GroupsOfAttentionDoNotMatter) {
  std::vector<std::vector<std::int32_t>> sequences;
  for (const int length : {2, 100, 40, 120, 1}) {
    auto& ids = sequences.emplace_back();
    for (int j = 0; j < length; ++j) ids.push_back((7 * j * j + 3 * length) % 60);
  }
  const PackedBatch batch = pack(sequences);
  ASSERT_GT(batch.groups.size(), 1U);
  const at::Tensor together = packed_hidden(model_, batch);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const at::Tensor alone = packed_hidden(model_, pack({&sequences[i], 1}));
    const at::Tensor mine = together.slice(0, batch.starts_S1[i], batch.starts_S1[i + 1]);
    EXPECT_LT(largest_difference(logprobs_of(model_, mine), logprobs_of(model_, alone)), kTolerance);
  }
}

// Branches of a shared stem see what they would see alone, and the stem's tokens are there once.
TEST_P(EveryCheckpoint, ASharedStemChangesNothing) {
  const auto ids = [](int length, int salt) {
    std::vector<std::int32_t> some;
    for (int j = 0; j < length; ++j) some.push_back((5 * j * j + 11 * salt + j) % 60);
    return some;
  };
  const std::vector<SequenceTree> trees = {
      {.stem = ids(70, 1), .branches = {ids(20, 2), {}, ids(3, 3), ids(51, 4)}},
      {.stem = ids(1, 5), .branches = {ids(9, 6)}},
      {.stem = ids(30, 7), .branches = {}}};
  const PackedBatch batch = pack_trees(trees);
  EXPECT_EQ(batch.tokens(), 70 + 20 + 3 + 51 + 1 + 9 + 30);
  const at::Tensor together = packed_hidden(model_, batch);
  std::int64_t start = 0;
  for (const SequenceTree& tree : trees) {
    std::int64_t next = start + std::ssize(tree.stem);
    const auto expect = [&](const std::vector<std::int32_t>& branch) {
      std::vector<std::int32_t> whole = tree.stem;
      whole.insert(whole.end(), branch.begin(), branch.end());
      const at::Tensor alone = logprobs_of(model_, packed_hidden(model_, pack({&whole, 1})));
      const at::Tensor mine =
          logprobs_of(model_, at::cat({together.slice(0, start, start + std::ssize(tree.stem)),
                                       together.slice(0, next, next + std::ssize(branch))}));
      EXPECT_LT(largest_difference(mine, alone), kTolerance);
      next += std::ssize(branch);
    };
    if (tree.branches.empty()) expect({});
    for (const auto& branch : tree.branches) expect(branch);
    start = next;
  }
}

// Token by token, three sequences of different lengths side by side.
TEST_P(EveryCheckpoint, DecodingEqualsTransformers) {
  InferenceDecoder decoder(model_, WeightStorage::kFloat32);
  KvStorage storage(model_.config, 40);
  for (std::size_t position = 0;; ++position) {
    TokenBatch batch;
    std::vector<std::size_t> rows;
    for (const std::size_t i : {1, 2, 3}) {
      if (position >= golden_.sequences[i].size()) continue;
      const auto first = static_cast<std::int32_t>(i) * 10;
      const std::vector<std::int32_t> table = {first, first + 1, first + 2, first + 3};
      batch.wanted_W.push_back(static_cast<std::int32_t>(
          batch.add_run({&golden_.sequences[i][position], 1}, static_cast<std::int64_t>(position), table)));
      rows.push_back(i);
    }
    if (rows.empty()) break;
    ASSERT_LT(position, 64U) << "four blocks a sequence";
    const at::Tensor logprobs = logprobs_of(model_, decoder.forward(batch, storage));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const at::Tensor expected = golden_.logprobs[rows[row]][static_cast<std::int64_t>(position)];
      EXPECT_LT(largest_difference(logprobs[static_cast<std::int64_t>(row)], expected), kTolerance)
          << "sequence " << rows[row] << " position " << position;
    }
  }
}

TEST_P(EveryCheckpoint, SavedAndLoadedAgainIsTheSame) {
  const TemporaryDirectory directory;
  save_model(model_, directory.path() / "copy", tiny(GetParam()));
  const Model again = load_model(directory.path() / "copy");
  const auto before = parameters(model_), after = parameters(again);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_TRUE(at::equal(before[i].tensor, after[i].tensor)) << before[i].name;
  }
  EXPECT_EQ(bytes_in(directory.path() / "copy" / "config.json"), bytes_in(tiny(GetParam()) / "config.json"));
  EXPECT_THAT(error_of([&] { save_model(model_, directory.path() / "copy", tiny(GetParam())); }),
              ::testing::HasSubstr("exists already"));
}

// For servers that were told that the head is not tied: two tensors of the same values, and still a directory
// that loads as it was.
TEST_P(EveryCheckpoint, ATiedHeadMayHaveItsOwnName) {
  const TemporaryDirectory directory;
  save_model(model_, directory.path() / "plain", tiny(GetParam()));
  save_model(model_, directory.path() / "own", tiny(GetParam()), {.own_head = true});
  const formats::Safetensors plain(directory.path() / "plain" / "model.safetensors"),
      own(directory.path() / "own" / "model.safetensors");
  const bool tied = model_.config.tie_word_embeddings;
  EXPECT_EQ(plain.find("lm_head.weight") == nullptr, tied);
  ASSERT_NE(own.find("lm_head.weight"), nullptr);
  EXPECT_TRUE(at::equal(tensor_of(own, "lm_head.weight"), model_.head_VH.detach()));
  const auto again = parameters(load_model(directory.path() / "own")), before = parameters(model_);
  ASSERT_EQ(again.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i].tensor, again[i].tensor));
}

INSTANTIATE_TEST_SUITE_P(Tiny, EveryCheckpoint, ::testing::Values("student", "teacher", "untied"),
                         [](const auto& checkpoint) { return std::string(checkpoint.param); });

// A tied pair may be stored once, under the head's name.
TEST(LoadModel, TakesATiedHeadForTheEmbedding) {
  const TemporaryDirectory directory;
  std::filesystem::copy_file(tiny("student/config.json"), directory.path() / "config.json");
  const Model model = load_model(tiny("student"));
  std::vector<Parameter> tensors = parameters(model);
  tensors.front().name = "lm_head.weight";
  save_tensors(directory.path() / "model.safetensors", tensors);
  EXPECT_TRUE(at::equal(load_model(directory.path()).embed_VH, model.embed_VH));
}

// Real checkpoints say bfloat16; we write float32, and a reader that trusts the word would round it.
TEST(SaveModel, SaysTheTypeItWrites) {
  const TemporaryDirectory directory;
  std::filesystem::copy(tiny("student"), directory.path() / "half");
  Json config = Json::parse(bytes_in(tiny("student") / "config.json"));
  config["dtype"] = "bfloat16";
  directory.write("half/config.json", config.dump());
  save_model(load_model(directory.path() / "half"), directory.path() / "saved", directory.path() / "half");
  Json saved = Json::parse(bytes_in(directory.path() / "saved/config.json"));
  EXPECT_EQ(saved["dtype"], "float32");
  saved["dtype"] = config["dtype"];
  EXPECT_EQ(saved, config) << "something else was changed";
}

TEST(LoadModel, RefusesWeightsThatDoNotFit) {
  const TemporaryDirectory directory;
  const auto copy = [&](const std::string& name, const std::vector<Parameter>& tensors) {
    const auto target = directory.path() / name;
    std::filesystem::create_directory(target);
    std::filesystem::copy_file(tiny("student/config.json"), target / "config.json");
    save_tensors(target / "model.safetensors", tensors);
    return error_of([&] { load_model(target); });
  };
  const Model model = load_model(tiny("student"));
  std::vector<Parameter> missing = parameters(model);
  missing.pop_back();
  EXPECT_THAT(copy("missing", missing), ::testing::HasSubstr("model.norm.weight is missing"));
  std::vector<Parameter> extra = parameters(model);
  extra.push_back({"model.layers.9.mlp.up_proj.weight", at::zeros({2})});
  EXPECT_THAT(copy("extra", extra), ::testing::HasSubstr("unexpected tensor model.layers.9"));
  std::vector<Parameter> shape = parameters(model);
  shape[1].tensor = at::zeros({3});
  EXPECT_THAT(copy("shape", shape), ::testing::HasSubstr("has shape [3]; config.json makes it [16]"));
  EXPECT_THAT(error_of([&] { load_model(directory.path() / "nowhere"); }),
              ::testing::HasSubstr("config.json"));
}

TEST(RandomModel, IsTheSeedsAndLooksNormal) {
  const formats::ModelConfig config = formats::read_model_config(tiny("student"));
  const Model a = random_model(config, 1), b = random_model(config, 1), c = random_model(config, 2);
  EXPECT_TRUE(at::equal(a.embed_VH, b.embed_VH));
  EXPECT_FALSE(at::equal(a.embed_VH, c.embed_VH));
  EXPECT_NEAR(a.embed_VH.std().item<double>(), 0.04, 0.04 * 0.1);
  EXPECT_NEAR(a.embed_VH.mean().item<double>(), 0, 0.04 * 0.1);
  EXPECT_FALSE(at::equal(a.layers[0].gate_FH, a.layers[0].up_FH));
}

}  // namespace
}  // namespace routeopd::model
