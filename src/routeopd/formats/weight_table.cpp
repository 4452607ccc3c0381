// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/weight_table.h"

#include <functional>
#include <numeric>
#include <utility>

namespace routeopd::formats {
namespace {

using Shape = std::vector<std::int64_t>;

// Appends what one layer has of the table's rows.
class LayerRows {
 public:
  LayerRows(std::vector<WeightRow>& rows, std::string prefix, std::int64_t layer)
      : rows_(rows), prefix_(std::move(prefix)), layer_(layer) {}

  // A projection to `outputs` from `inputs`, and its bias where it has one.
  void projection(Weight matrix, Weight bias, const std::string& name, std::int64_t outputs,
                  std::int64_t inputs, bool with_bias) {
    add(matrix, name + ".weight", {outputs, inputs});
    if (with_bias) add(bias, name + ".bias", {outputs});
  }

  // A norm, where the architecture has a name for it.
  void norm(Weight weight, const std::string& name, std::int64_t size) {
    if (!name.empty()) add(weight, name + ".weight", {size});
  }

 private:
  void add(Weight weight, const std::string& name, Shape shape) {
    rows_.push_back({weight, layer_, prefix_ + name, std::move(shape)});
  }

  std::vector<WeightRow>& rows_;
  std::string prefix_;
  std::int64_t layer_;
};

void add_layer(const ModelConfig& config, std::int64_t layer, std::vector<WeightRow>& all) {
  const ArchitectureSpec& spec = config.architecture();
  const TensorNames& names = spec.names;
  const std::int64_t h = config.hidden_size, f = config.intermediate_size;
  const std::int64_t q = config.query_size(), c = config.key_size();
  const bool qkv_bias = config.has(spec.qkv_bias), mlp_bias = config.has(spec.mlp_bias);
  LayerRows rows(all, fmt::format("{}.{}.", names.layers, layer), layer);
  rows.norm(Weight::kNormBeforeAttention, names.norm_before_attention, h);
  rows.projection(Weight::kQuery, Weight::kQueryBias, names.query, q, h, qkv_bias);
  rows.projection(Weight::kKey, Weight::kKeyBias, names.key, c, h, qkv_bias);
  rows.projection(Weight::kValue, Weight::kValueBias, names.value, c, h, qkv_bias);
  rows.projection(Weight::kOutput, Weight::kOutputBias, names.output, h, q, config.has(spec.output_bias));
  if (spec.query_key_norm != QueryKeyNorm::kNone) {
    const bool whole = spec.query_key_norm == QueryKeyNorm::kWholeProjection;
    rows.norm(Weight::kQueryNorm, names.query_norm, whole ? q : config.head_dim);
    rows.norm(Weight::kKeyNorm, names.key_norm, whole ? c : config.head_dim);
  }
  rows.norm(Weight::kNormAfterAttention, names.norm_after_attention, h);
  rows.norm(Weight::kNormBeforeMlp, names.norm_before_mlp, h);
  rows.projection(Weight::kGate, Weight::kGateBias, names.gate, f, h, mlp_bias);
  rows.projection(Weight::kUp, Weight::kUpBias, names.up, f, h, mlp_bias);
  rows.projection(Weight::kDown, Weight::kDownBias, names.down, h, f, mlp_bias);
  rows.norm(Weight::kNormAfterMlp, names.norm_after_mlp, h);
}

}  // namespace

std::int64_t WeightRow::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string embedding_name(const ModelConfig& config) {
  return config.architecture().names.embedding + ".weight";
}

std::string head_name(const ModelConfig& config) {
  return config.architecture().names.head + ".weight";
}

std::vector<WeightRow> weight_table(const ModelConfig& config) {
  const Shape table = {config.vocab_size, config.hidden_size};
  std::vector<WeightRow> rows;
  rows.push_back({Weight::kEmbedding, -1, embedding_name(config), table});
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) add_layer(config, i, rows);
  rows.push_back(
      {Weight::kFinalNorm, -1, config.architecture().names.final_norm + ".weight", {config.hidden_size}});
  if (!config.tie_word_embeddings) rows.push_back({Weight::kHead, -1, head_name(config), table});
  return rows;
}

std::int64_t parameter_count(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const WeightRow& row : weight_table(config)) count += row.elements();
  return count;
}

}  // namespace routeopd::formats
