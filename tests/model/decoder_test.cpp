// The decoder against transformers on tiny random checkpoints: training forward, key-value cache, and files.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/decoder.h"

#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/decoder_testing.h"
#include "routeopd/model/kv_cache.h"
#include "testing_files.h"
#include "tiny_models.h"

namespace routeopd::model {
namespace {

constexpr int kSequences = 4;

struct Golden {
  std::vector<std::vector<std::int32_t>> sequences;
  std::vector<at::Tensor> logprobs;  // [L, V] each
};

Golden golden_of(const std::string& name) {
  const formats::Safetensors file(tiny("forward_" + name + ".safetensors"));
  Golden golden;
  for (int i = 0; i < kSequences; ++i) {
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

// Prompts of different lengths are read at once, rows are repeated and dropped, and the rest is fed token by token.
TEST_P(EveryCheckpoint, CachedDecodeEqualsTransformers) {
  const std::vector<std::size_t> which = {1, 2, 3};
  const std::vector<std::size_t> prompt_lengths = {2, 7, 1};
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::size_t i = 0; i < which.size(); ++i) {
    const auto& ids = golden_.sequences[which[i]];
    prompts.emplace_back(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt_lengths[i]));
  }
  KvCache cache(model_.config, std::ssize(prompts));
  at::Tensor hidden = cache.prefill(model_, pack(prompts));
  std::vector<std::size_t> rows = {2, 0, 1, 2};  // the sequence of each row from here on
  cache.select(at::tensor(std::vector<std::int64_t>(rows.begin(), rows.end()), at::kLong));
  hidden = hidden.index_select(0, at::tensor(std::vector<std::int64_t>(rows.begin(), rows.end()), at::kLong));
  for (std::size_t step = 0; !rows.empty(); ++step) {
    const at::Tensor logprobs = logprobs_of(model_, hidden);
    std::vector<std::int64_t> kept, next;
    std::vector<std::size_t> still;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::size_t position = prompt_lengths[rows[row]] - 1 + step;
      const auto& ids = golden_.sequences[which[rows[row]]];
      const at::Tensor expected = golden_.logprobs[which[rows[row]]][static_cast<std::int64_t>(position)];
      EXPECT_LT(largest_difference(logprobs[static_cast<std::int64_t>(row)], expected), kTolerance)
          << "sequence " << which[rows[row]] << " position " << position;
      if (position + 1 >= ids.size()) continue;
      kept.push_back(static_cast<std::int64_t>(row));
      still.push_back(rows[row]);
      next.push_back(ids[position + 1]);
    }
    rows = still;
    if (rows.empty()) break;
    cache.select(at::tensor(kept, at::kLong));
    hidden = cache.step(model_, at::tensor(next, at::kLong));
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
