// All threads run the whole forward side by side, each on its share of rows, panels or heads, and meet at a barrier
// between two stages: a step of decoding has eight of them a layer, too many for a parallel region each.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/inference/inference_decoder.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/kernels/block_attention.h"
#include "routeopd/kernels/token_rows.h"
#include "routeopd/model/decoder.h"

namespace routeopd::model {
namespace {

enum Matrix : std::size_t { kQueryKeyValue, kOutput, kGateUp, kDown, kMatrices };
enum Norm : std::size_t { kInputNorm, kPostNorm, kQueryNorm, kKeyNorm, kNorms };

std::vector<PanelSource> sources_of(const Model& model) {
  std::vector<PanelSource> sources;
  for (const Layer& layer : model.layers) {
    PanelSource& qkv = sources.emplace_back();
    qkv.add_rows(layer.q_proj_QH, layer.q_bias_Q);
    qkv.add_rows(layer.k_proj_CH, layer.k_bias_C);
    qkv.add_rows(layer.v_proj_CH, layer.v_bias_C);
    qkv.fill_panel();
    PanelSource& output = sources.emplace_back();
    output.epilogue = kernels::Epilogue::kAdd;
    output.add_rows(layer.o_proj_HQ, layer.o_bias_H);
    output.fill_panel();
    sources.push_back(PanelSource::gated(layer.gate_FH, layer.gate_bias_F, layer.up_FH, layer.up_bias_F));
    PanelSource& down = sources.emplace_back();
    down.epilogue = kernels::Epilogue::kAdd;
    down.add_rows(layer.down_HF, layer.down_bias_H);
    down.fill_panel();
  }
  return sources;
}

// One of several threads that run the same function.
struct LayerWorker {
  std::int64_t number = omp_get_thread_num();
  std::int64_t count = omp_get_num_threads();

  // This thread's share of [0, size), in units of `unit`.
  template <class Work>
  void share(std::int64_t size, std::int64_t unit, const Work& work) const {
    const std::int64_t units = (size + unit - 1) / unit;
    const std::int64_t begin = units * number / count * unit;
    const std::int64_t end = std::min(units * (number + 1) / count * unit, size);
    if (begin < end) work(begin, end);
  }

  void multiply(const kernels::Product& product, const float* x, std::int64_t rows, std::int64_t x_stride,
                float* y, std::int64_t y_stride) const {
    const std::int64_t unit = product.epilogue == kernels::Epilogue::kGatedSilu ? 2 : 1;
    share(product.weight.panel_count, unit, [&](std::int64_t begin, std::int64_t end) {
      kernels::multiply_panels(product, x, rows, x_stride, begin, end, y, y_stride);
    });
  }
};

// Tokens of a run and key-value head that one thread attends for at a time.
struct AttentionItem {
  std::size_t run;
  std::int64_t first, tokens, head;
};

// Longest first would balance best; a run's last tokens see most, so they come first.
std::vector<AttentionItem> attention_items(const TokenBatch& batch, const formats::ModelConfig& config) {
  const std::int64_t group = config.num_attention_heads / config.num_key_value_heads;
  const std::int64_t tile = std::max<std::int64_t>(1, kernels::kAttentionRows / group);
  std::vector<AttentionItem> items;
  for (std::size_t r = 0; r < batch.runs.size(); ++r) {
    for (std::int64_t end = batch.runs[r].tokens; end > 0; end -= tile) {
      const std::int64_t first = std::max<std::int64_t>(0, end - tile);
      for (std::int64_t head = 0; head < config.num_key_value_heads; ++head)
        items.push_back({r, first, end - first, head});
    }
  }
  return items;
}

}  // namespace

// Rows of the activations, in one stretch of memory.
struct InferenceDecoder::Activations {
  std::int64_t hidden, queries, keys, middle;  // H, Q, C, F
  float *x_TH, *normed_TH, *qkv, *attended_TQ, *gated_TF;

  static std::int64_t row_floats(const formats::ModelConfig& config) {
    const std::int64_t q = config.num_attention_heads * config.head_dim;
    const std::int64_t c = config.num_key_value_heads * config.head_dim;
    return 2 * config.hidden_size + 2 * q + 2 * c + config.intermediate_size;
  }

  Activations(const formats::ModelConfig& config, std::int64_t tokens, float* memory)
      : hidden(config.hidden_size),
        queries(config.num_attention_heads * config.head_dim),
        keys(config.num_key_value_heads * config.head_dim),
        middle(config.intermediate_size),
        x_TH(memory),
        normed_TH(x_TH + tokens * hidden),
        qkv(normed_TH + tokens * hidden),
        attended_TQ(qkv + tokens * (queries + 2 * keys)),
        gated_TF(attended_TQ + tokens * queries) {}

  std::int64_t qkv_stride() const { return queries + 2 * keys; }
};

struct InferenceDecoder::Step {
  const TokenBatch& batch;
  KvStorage& storage;
  Activations& rows;
  const std::vector<AttentionItem>& items;
  std::vector<std::atomic<std::size_t>>& next_item;  // a layer each
  float* hidden_WH;
};

InferenceDecoder::InferenceDecoder(const Model& model, WeightStorage storage)
    : config_(model.config), matrices_(sources_of(model), storage) {
  copy_small_weights(model);
}

void InferenceDecoder::update(const Model& model) {
  matrices_.update(sources_of(model));
  copy_small_weights(model);
}

void InferenceDecoder::copy_small_weights(const Model& model) {
  embed_VH_ = model.embed_VH.detach();
  norms_.clear();
  for (const Layer& layer : model.layers) {
    for (const at::Tensor& norm : {layer.input_norm_H, layer.post_norm_H, layer.q_norm_D, layer.k_norm_D})
      norms_.push_back(norm.defined() ? norm.detach().clone() : norm);
  }
  norms_.push_back(model.norm_H.detach().clone());
}

void InferenceDecoder::extend_rotation(std::int64_t positions) {
  const std::int64_t known = cos_PE_.defined() ? cos_PE_.size(0) : 0;
  if (positions <= known) return;
  const std::int64_t size = std::min(std::max(positions, 2 * known + 256), config_.max_position_embeddings);
  const Rotation rotation = rotation_of(config_, at::arange(std::max(size, positions), at::kLong));
  cos_PE_ = rotation.cos_T1E.squeeze(1).contiguous();
  sin_PE_ = rotation.sin_T1E.squeeze(1).contiguous();
}

at::Tensor InferenceDecoder::forward(const TokenBatch& batch, KvStorage& storage) {
  const c10::NoGradGuard no_grad;
  const std::int64_t tokens = batch.tokens(), hidden = config_.hidden_size;
  extend_rotation(*std::max_element(batch.positions_T.begin(), batch.positions_T.end()) + 1);
  activations_.resize(
      std::max(activations_.size(), static_cast<std::size_t>(tokens * Activations::row_floats(config_))));
  Activations rows(config_, tokens, activations_.data());
  const std::vector<AttentionItem> items = attention_items(batch, config_);
  std::vector<std::atomic<std::size_t>> next_item(static_cast<std::size_t>(config_.num_hidden_layers));
  at::Tensor hidden_WH = at::empty({std::ssize(batch.wanted_W), hidden}, at::kFloat);
  const Step step{batch, storage, rows, items, next_item, hidden_WH.data_ptr<float>()};
  const int threads = omp_in_parallel() != 0 ? 1 : at::get_num_threads();
#pragma omp parallel num_threads(threads)
  run(step);
  return hidden_WH;
}

void InferenceDecoder::run(const Step& step) {
  const LayerWorker worker;
  Activations rows = step.rows;
  const TokenBatch& batch = step.batch;
  const std::int64_t h = rows.hidden, group = config_.num_attention_heads / config_.num_key_value_heads;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const at::Tensor scratch = at::empty(
      {kernels::attention_scratch(std::max(kernels::kAttentionRows, group), config_.head_dim)}, at::kFloat);
  std::int64_t tokens = batch.tokens();
  const auto norm_rows = [&](const at::Tensor& weight, float* out) {
    worker.share(tokens, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        kernels::rms_norm_row(rows.x_TH + t * h, weight.const_data_ptr<float>(), h, eps, out + t * h);
    });
  };

  worker.share(tokens, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      std::copy_n(embed_VH_.const_data_ptr<float>() + batch.ids_T[static_cast<std::size_t>(t)] * h, h,
                  rows.x_TH + t * h);
  });
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(config_.num_hidden_layers); ++layer) {
    const auto matrix = [&](Matrix which) -> const kernels::Product& {
      return matrices_[layer * kMatrices + which];
    };
    const auto norm = [&](Norm which) -> const at::Tensor& { return norms_[layer * kNorms + which]; };
    norm_rows(norm(kInputNorm), rows.normed_TH);
#pragma omp barrier
    worker.multiply(matrix(kQueryKeyValue), rows.normed_TH, tokens, h, rows.qkv, rows.qkv_stride());
#pragma omp barrier
    worker.share(tokens, 1,
                 [&](std::int64_t begin, std::int64_t end) { write_keys(step, layer, begin, end); });
#pragma omp barrier
    attend(step, layer, scratch.data_ptr<float>());
#pragma omp barrier
    if (layer + 1 == static_cast<std::size_t>(config_.num_hidden_layers) &&
        std::ssize(batch.wanted_W) < tokens) {  // behind the last attention only the wanted tokens matter
      tokens = std::ssize(batch.wanted_W);
#pragma omp single
      for (std::int64_t w = 0; w < tokens; ++w) {
        const std::int64_t t = batch.wanted_W[static_cast<std::size_t>(w)];
        std::copy_n(rows.x_TH + t * h, h, rows.x_TH + w * h);
        std::copy_n(rows.attended_TQ + t * rows.queries, rows.queries, rows.attended_TQ + w * rows.queries);
      }
    }
    worker.multiply(matrix(kOutput), rows.attended_TQ, tokens, rows.queries, rows.x_TH, h);
#pragma omp barrier
    norm_rows(norm(kPostNorm), rows.normed_TH);
#pragma omp barrier
    worker.multiply(matrix(kGateUp), rows.normed_TH, tokens, h, rows.gated_TF, rows.middle);
#pragma omp barrier
    worker.multiply(matrix(kDown), rows.gated_TF, tokens, rows.middle, rows.x_TH, h);
#pragma omp barrier
  }
  norm_rows(norms_.back(), step.hidden_WH);
}

// Normalises and rotates queries and keys, and puts keys and values into their blocks.
void InferenceDecoder::write_keys(const Step& step, std::size_t layer, std::int64_t begin, std::int64_t end) {
  const std::int64_t d = config_.head_dim, planes = d / 2, kv_heads = config_.num_key_value_heads;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const at::Tensor& query_norm = norms_[layer * kNorms + kQueryNorm];
  const at::Tensor& key_norm = norms_[layer * kNorms + kKeyNorm];
  const auto l = static_cast<std::int64_t>(layer);
  const auto prepare = [&](float* head, const at::Tensor& norm, std::int64_t position, float factor) {
    if (norm.defined()) kernels::rms_norm_row(head, norm.const_data_ptr<float>(), d, eps, head);
    kernels::rotate_head(head, cos_PE_.const_data_ptr<float>() + position * planes,
                         sin_PE_.const_data_ptr<float>() + position * planes, planes, factor);
  };
  const auto put = [&](std::int64_t t, std::int32_t block) {
    const float* const key = step.rows.qkv + t * step.rows.qkv_stride() + step.rows.queries;
    const std::int64_t slot = step.batch.positions_T[static_cast<std::size_t>(t)] % kernels::kBlockPositions;
    for (std::int64_t head = 0; head < kv_heads; ++head)
      kernels::write_key_value(key + head * d, key + step.rows.keys + head * d, d, slot,
                               step.storage.at(l, head) + block * step.storage.block_stride());
  };
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t position = step.batch.positions_T[static_cast<std::size_t>(t)];
    float* const row = step.rows.qkv + t * step.rows.qkv_stride();
    for (std::int64_t head = 0; head < config_.num_attention_heads; ++head)
      prepare(row + head * d, query_norm, position, scale);
    for (std::int64_t head = 0; head < kv_heads; ++head)
      prepare(row + step.rows.queries + head * d, key_norm, position, 1);
    put(t, step.batch.block_T[static_cast<std::size_t>(t)]);
  }
  for (const SharedWrite& write : step.batch.shared_writes)
    if (write.token >= begin && write.token < end) put(write.token, write.block);
}

void InferenceDecoder::attend(const Step& step, std::size_t layer, float* scratch) {
  const std::int64_t d = config_.head_dim, group = config_.num_attention_heads / config_.num_key_value_heads;
  const std::int64_t stride = step.rows.qkv_stride();
  for (std::size_t i = step.next_item[layer]++; i < step.items.size(); i = step.next_item[layer]++) {
    const AttentionItem& item = step.items[i];
    const TokenRun& run = step.batch.runs[item.run];
    const std::int64_t token = run.first_token + item.first;
    kernels::attend_blocks({.query = step.rows.qkv + token * stride + item.head * group * d,
                            .stride = stride,
                            .tokens = item.tokens,
                            .heads = group,
                            .head_dim = d,
                            .first_position = run.first_position + item.first,
                            .blocks = step.storage.at(static_cast<std::int64_t>(layer), item.head),
                            .block_stride = step.storage.block_stride(),
                            .table = step.batch.blocks.data() + run.first_block,
                            .out = step.rows.attended_TQ + token * step.rows.queries + item.head * group * d,
                            .out_stride = step.rows.queries},
                           scratch);
  }
}

}  // namespace routeopd::model
