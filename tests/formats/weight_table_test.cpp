// The table of weights against the files that transformers wrote for each architecture: names, shapes, order.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/weight_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "routeopd/formats/weight_files.h"
#include "testing_files.h"

namespace routeopd::formats {
namespace {

using ::testing::ElementsAre;

std::filesystem::path directory_of(const std::string& name) {
  return std::filesystem::path(ROUTEOPD_TEST_DATA) / "goldens" / "architectures" / name;
}

class WeightTable : public ::testing::TestWithParam<const char*> {};

TEST_P(WeightTable, NamesAndShapesAreThoseOfTransformers) {
  const ModelConfig config = read_model_config(directory_of(GetParam()));
  const WeightFiles stored(directory_of(GetParam()));
  std::map<std::string, std::vector<std::int64_t>> expected, table;
  std::int64_t elements = 0;
  for (const auto& [name, entry] : stored.tensors()) expected[name] = entry.tensor->shape;
  for (const WeightRow& row : weight_table(config)) {
    EXPECT_TRUE(table.emplace(row.name, row.shape).second) << row.name << " twice";
    elements += row.elements();
  }
  // The file called "llama" holds its tied pair under the head's name alone.
  if (config.tie_word_embeddings && !expected.contains(embedding_name(config))) {
    auto node = expected.extract(head_name(config));
    node.key() = embedding_name(config);
    expected.insert(std::move(node));
  }
  EXPECT_EQ(table, expected);
  EXPECT_EQ(parameter_count(config), elements);
}

TEST_P(WeightTable, EachWeightOfALayerOnce) {
  const ModelConfig config = read_model_config(directory_of(GetParam()));
  std::set<std::pair<std::int64_t, Weight>> seen;
  for (const WeightRow& row : weight_table(config))
    EXPECT_TRUE(seen.emplace(row.layer, row.weight).second) << row.name;
}

INSTANTIATE_TEST_SUITE_P(Tiny, WeightTable,
                         ::testing::Values("qwen2", "qwen2_shards", "qwen3_bias", "llama", "llama3",
                                           "llama_bias", "mistral", "olmo2", "gemma", "gemma_shards"),
                         [](const auto& name) { return std::string(name.param); });

// Files, optimizer moments and random weights all follow this order.
TEST(WeightOrder, IsThatOfCheckpoints) {
  ModelConfig config = read_model_config(directory_of("llama_bias"));
  config.num_hidden_layers = 1;
  std::vector<std::string> names;
  for (const WeightRow& row : weight_table(config)) names.push_back(row.name);
  const std::string layer = "model.layers.0.", attention = layer + "self_attn.", mlp = layer + "mlp.";
  EXPECT_THAT(
      names,
      ElementsAre("model.embed_tokens.weight", layer + "input_layernorm.weight", attention + "q_proj.weight",
                  attention + "q_proj.bias", attention + "k_proj.weight", attention + "k_proj.bias",
                  attention + "v_proj.weight", attention + "v_proj.bias", attention + "o_proj.weight",
                  attention + "o_proj.bias", layer + "post_attention_layernorm.weight",
                  mlp + "gate_proj.weight", mlp + "gate_proj.bias", mlp + "up_proj.weight",
                  mlp + "up_proj.bias", mlp + "down_proj.weight", mlp + "down_proj.bias", "model.norm.weight",
                  "lm_head.weight"));
}

TEST(Architectures, EachIsFoundByItsModelType) {
  std::set<std::string> types;
  for (const ArchitectureSpec& spec : architectures()) {
    EXPECT_TRUE(types.insert(spec.model_type).second) << spec.model_type;
    EXPECT_EQ(find_architecture(spec.model_type), &spec);
    EXPECT_FALSE(spec.class_name.empty());
    EXPECT_FALSE(spec.activation_names.empty());
  }
  EXPECT_EQ(find_architecture("gpt2"), nullptr);
}

}  // namespace
}  // namespace routeopd::formats
