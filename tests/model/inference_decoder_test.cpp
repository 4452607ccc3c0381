// The inference decoder against the training forward on every architecture, and its batch invariance.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/inference/inference_decoder.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "model/decoder_testing.h"
#include "tiny_models.h"

namespace routeopd::model {
namespace {

constexpr std::int64_t kLength = 150;  // more than one group of attention

std::vector<std::int32_t> some_ids(std::int64_t count, std::int64_t vocabulary, std::int64_t seed) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int32_t>((7 * i * i + 13 * i + seed) % vocabulary));
  return ids;
}

std::vector<std::int32_t> blocks_from(std::int32_t first, std::int64_t tokens) {
  std::vector<std::int32_t> table;
  for (std::int64_t i = 0; i < (tokens + 15) / 16; ++i) table.push_back(first + static_cast<std::int32_t>(i));
  return table;
}

class Inference : public ::testing::TestWithParam<const char*> {
 protected:
  Inference() {
    model_ = load_model(architecture_directory(GetParam()));
    const std::int64_t length = std::min(kLength, model_.config.max_position_embeddings);
    ids_ = some_ids(length, model_.config.vocab_size, 5);
    table_ = blocks_from(3, length);
  }

  // One sequence in parts of `part` tokens; every token's hidden state.
  at::Tensor read_in_parts(std::int64_t part, WeightStorage storage = WeightStorage::kFloat32) {
    InferenceDecoder decoder(model_, storage);
    KvStorage blocks(model_.config, 40);
    std::vector<at::Tensor> all;
    for (std::int64_t first = 0; first < std::ssize(ids_); first += part) {
      TokenBatch batch;
      const std::int64_t count = std::min(part, std::ssize(ids_) - first);
      batch.add_run(std::span(ids_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                    first, table_);
      for (std::int32_t i = 0; i < count; ++i) batch.wanted_W.push_back(i);
      all.push_back(decoder.forward(batch, blocks));
    }
    return at::cat(all);
  }

  const c10::NoGradGuard no_grad_;
  Model model_;
  std::vector<std::int32_t> ids_, table_;
};

TEST_P(Inference, EqualsTheTrainingForward) {
  const at::Tensor expected = logprobs_of(model_, packed_hidden(model_, pack({&ids_, 1})));
  EXPECT_LT(largest_difference(logprobs_of(model_, read_in_parts(1000)), expected), kTolerance);
}

TEST_P(Inference, PartsDoNotMatterToTheLastBit) {
  const at::Tensor whole = read_in_parts(1000);
  for (const std::int64_t part : {1, 7, 64}) EXPECT_TRUE(at::equal(read_in_parts(part), whole)) << part;
}

TEST_P(Inference, ThreadsDoNotMatterToTheLastBit) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = read_in_parts(20);
  at::set_num_threads(3);
  const at::Tensor three = read_in_parts(20);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, three));
}

// Two sequences begin alike: the second shares the blocks that are filled, and has a copy of the one that is
// not. Beside them, a third; of each only the last token is asked for.
TEST_P(Inference, SharedPrefixesAndNeighboursDoNotMatterToTheLastBit) {
  constexpr std::int64_t kPrefix = 37;
  InferenceDecoder decoder(model_, WeightStorage::kFloat32);
  KvStorage blocks(model_.config, 40);
  const std::span ids(ids_);
  const std::int64_t length = std::ssize(ids_);
  std::vector<std::int32_t> fork = {table_[0], table_[1]};
  for (const std::int32_t block : blocks_from(20, length - 32)) fork.push_back(block);
  TokenBatch batch;
  const std::vector<std::int32_t> other = some_ids(23, model_.config.vocab_size, 11);
  batch.add_run(other, 0, blocks_from(0, 23));
  const std::int64_t prefix = batch.add_run(ids.first(kPrefix), 0, table_);
  batch.wanted_W = {22, static_cast<std::int32_t>(prefix + kPrefix - 1)};
  const at::Tensor got = decoder.forward(batch, blocks);
  blocks.copy_block(table_[2], fork[2]);
  TokenBatch rest;
  rest.add_run(ids.subspan(kPrefix), kPrefix, fork);
  rest.wanted_W = {static_cast<std::int32_t>(length - kPrefix - 1)};
  const at::Tensor forked = decoder.forward(rest, blocks);
  const at::Tensor whole = read_in_parts(1000);
  EXPECT_TRUE(at::equal(got[1], whole[kPrefix - 1]));
  EXPECT_TRUE(at::equal(forked[0], whole[length - 1]));
  const at::Tensor alone = logprobs_of(model_, packed_hidden(model_, pack({&other, 1})));
  EXPECT_LT(largest_difference(logprobs_of(model_, got[0].unsqueeze(0)), alone.slice(0, 22)), kTolerance);
}

TEST_P(Inference, BFloat16WeightsAreThoseOfARoundedModel) {
  Model rounded = clone_model(model_);
  for (Parameter& parameter : parameters(rounded))
    if (parameter.tensor.dim() == 2 && !parameter.name.ends_with("embed_tokens.weight"))
      parameter.tensor.copy_(parameter.tensor.to(at::kBFloat16));
  const at::Tensor half = read_in_parts(1000, WeightStorage::kBFloat16);
  model_ = rounded;
  EXPECT_TRUE(at::equal(half, read_in_parts(1000)));
  EXPECT_TRUE(at::equal(half, read_in_parts(1000, WeightStorage::kExact)));
}

INSTANTIATE_TEST_SUITE_P(Tiny, Inference,
                         ::testing::Values("qwen2", "qwen3_bias", "llama", "llama3", "llama_bias", "mistral",
                                           "olmo2", "gemma", "gemma_shards"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace routeopd::model
