// All threads run the whole forward side by side, each on its share of rows, panels or heads, and meet at a
// barrier between two stages: a step of decoding has eight of them per layer, too many for a parallel region
// each.
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
enum Norm : std::size_t {
  kBeforeAttention,
  kAfterAttention,
  kBeforeMlp,
  kAfterMlp,
  kQueryNorm,
  kKeyNorm,
  kNorms
};

// A projection back to the hidden states: added to them at once, or stored for the norm that comes between.
PanelSource residual_source(const at::Tensor& weight_HK, const at::Tensor& bias_H, bool normed) {
  PanelSource source;
  source.epilogue = normed ? kernels::Epilogue::kStore : kernels::Epilogue::kAdd;
  source.add_rows(weight_HK, bias_H);
  source.fill_panel();
  return source;
}

std::vector<PanelSource> sources_of(const Model& model) {
  const bool silu = model.config.architecture().activation == formats::Activation::kSilu;
  const kernels::Epilogue gate = silu ? kernels::Epilogue::kGatedSilu : kernels::Epilogue::kGatedGeluTanh;
  std::vector<PanelSource> sources;
  for (const Layer& layer : model.layers) {
    PanelSource& qkv = sources.emplace_back();
    qkv.add_rows(layer.q_proj_QH, layer.q_bias_Q);
    qkv.add_rows(layer.k_proj_CH, layer.k_bias_C);
    qkv.add_rows(layer.v_proj_CH, layer.v_bias_C);
    qkv.fill_panel();
    sources.push_back(
        residual_source(layer.o_proj_HQ, layer.o_bias_H, layer.norm_after_attention_H.defined()));
    sources.push_back(
        PanelSource::gated(layer.gate_FH, layer.gate_bias_F, layer.up_FH, layer.up_bias_F, gate));
    sources.push_back(residual_source(layer.down_HF, layer.down_bias_H, layer.norm_after_mlp_H.defined()));
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
    const std::int64_t unit = kernels::is_gated(product.epilogue) ? 2 : 1;
    share(product.weight.panel_count, unit, [&](std::int64_t begin, std::int64_t end) {
      kernels::multiply_panels(product, x, rows, x_stride, begin, end, y, y_stride);
    });
  }
};

}  // namespace

// Tokens of a run and key-value head that one thread attends for at a time.
struct InferenceDecoder::AttentionItem {
  std::size_t run;
  std::int64_t first, tokens, head;
};

// Longest first would balance best; a run's last tokens see most, so they come first.
std::vector<InferenceDecoder::AttentionItem> InferenceDecoder::attention_items(
    const TokenBatch& batch) const {
  const std::int64_t group = config_.num_attention_heads / config_.num_key_value_heads;
  const std::int64_t tile = std::max<std::int64_t>(1, kernels::kAttentionRows / group);
  std::vector<AttentionItem> items;
  for (std::size_t r = 0; r < batch.runs.size(); ++r) {
    for (std::int64_t end = batch.runs[r].tokens; end > 0; end -= tile) {
      const std::int64_t first = std::max<std::int64_t>(0, end - tile);
      for (std::int64_t head = 0; head < config_.num_key_value_heads; ++head)
        items.push_back({r, first, end - first, head});
    }
  }
  return items;
}

// The activations of one forward, in one stretch of memory.
struct InferenceDecoder::Rows {
  std::int64_t hidden, queries, keys, middle;  // H, Q, C, F
  float* x_TH;                                 // the hidden states
  float* normed_TH;  // what the norm before a branch gives, then what the norm after it reads
  float *qkv, *attended_TQ, *gated_TF;

  static std::int64_t row_floats(const formats::ModelConfig& config) {
    return 2 * config.hidden_size + 2 * config.query_size() + 2 * config.key_size() +
           config.intermediate_size;
  }

  Rows(const formats::ModelConfig& config, std::int64_t tokens, float* memory)
      : hidden(config.hidden_size),
        queries(config.query_size()),
        keys(config.key_size()),
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
  const Rows& rows;
  const std::vector<AttentionItem>& items;
  std::vector<std::atomic<std::size_t>>& next_item;  // one per layer
  float* hidden_WH;
  float* scratch;  // scratch_floats for each thread
  std::int64_t scratch_floats;
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
  const double offset = config_.architecture().norm_offset;
  const auto multiplier = [&](const at::Tensor& norm) {
    if (!norm.defined()) return norm;
    return offset == 0 ? norm.detach().clone() : norm.detach() + offset;
  };
  for (const Layer& layer : model.layers) {
    for (const at::Tensor& norm :
         {layer.norm_before_attention_H, layer.norm_after_attention_H, layer.norm_before_mlp_H,
          layer.norm_after_mlp_H, layer.q_norm, layer.k_norm})
      norms_.push_back(multiplier(norm));
  }
  norms_.push_back(multiplier(model.norm_H));
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
      std::max(activations_.size(), static_cast<std::size_t>(tokens * Rows::row_floats(config_))));
  const Rows rows(config_, tokens, activations_.data());
  const std::vector<AttentionItem> items = attention_items(batch);
  std::vector<std::atomic<std::size_t>> next_item(static_cast<std::size_t>(config_.num_hidden_layers));
  at::Tensor hidden_WH = at::empty({std::ssize(batch.wanted_W), hidden}, at::kFloat);
  const int threads = omp_in_parallel() != 0 ? 1 : at::get_num_threads();
  const std::int64_t group = config_.num_attention_heads / config_.num_key_value_heads;
  // Taken before the threads begin: no exception may leave them. Whole cache lines for each.
  const std::int64_t scratch_floats =
      (kernels::attention_scratch(std::max(kernels::kAttentionRows, group), config_.head_dim) + 15) / 16 * 16;
  const at::Tensor scratch = at::empty({threads, scratch_floats}, at::kFloat);
  const Step step{
      batch,         storage, rows, items, next_item, hidden_WH.data_ptr<float>(), scratch.data_ptr<float>(),
      scratch_floats};
#pragma omp parallel num_threads(threads)
  run(step);
  return hidden_WH;
}

void InferenceDecoder::run(const Step& step) {
  const LayerWorker worker;
  const Rows& rows = step.rows;
  const TokenBatch& batch = step.batch;
  const std::int64_t h = rows.hidden;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  std::int64_t tokens = batch.tokens();
  const auto each_row = [&](const auto& work) {
    worker.share(tokens, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) work(t);
    });
  };
  const auto norm_rows = [&](const at::Tensor& weight, float* out) {
    each_row([&](std::int64_t t) {
      kernels::rms_norm_row(rows.x_TH + t * h, weight.const_data_ptr<float>(), h, eps, out + t * h);
    });
  };
  // What a branch reads: the hidden states, through the norm before it where there is one.
  const auto branch_input = [&](const at::Tensor& norm) -> const float* {
    if (!norm.defined()) return rows.x_TH;
    norm_rows(norm, rows.normed_TH);
#pragma omp barrier
    return rows.normed_TH;
  };
  // The hidden states plus what a branch gives, through the norm after it where there is one.
  const auto add_branch = [&](const kernels::Product& product, const float* from, std::int64_t width,
                              const at::Tensor& norm) {
    worker.multiply(product, from, tokens, width, norm.defined() ? rows.normed_TH : rows.x_TH, h);
#pragma omp barrier
    if (!norm.defined()) return;
    each_row([&](std::int64_t t) {
      float* const branch = rows.normed_TH + t * h;
      float* const x = rows.x_TH + t * h;
      kernels::rms_norm_row(branch, norm.const_data_ptr<float>(), h, eps, branch);
      for (std::int64_t i = 0; i < h; ++i) x[i] += branch[i];
    });
#pragma omp barrier
  };

  const auto scale = static_cast<float>(config_.embedding_scale());
  each_row([&](std::int64_t t) {
    const float* const from =
        embed_VH_.const_data_ptr<float>() + batch.ids_T[static_cast<std::size_t>(t)] * h;
    for (std::int64_t i = 0; i < h; ++i) rows.x_TH[t * h + i] = from[i] * scale;
  });
  // A branch without a norm before it reads all rows, those of other threads too.
#pragma omp barrier
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(config_.num_hidden_layers); ++layer) {
    const auto matrix = [&](Matrix which) -> const kernels::Product& {
      return matrices_[layer * kMatrices + which];
    };
    const auto norm = [&](Norm which) -> const at::Tensor& { return norms_[layer * kNorms + which]; };
    worker.multiply(matrix(kQueryKeyValue), branch_input(norm(kBeforeAttention)), tokens, h, rows.qkv,
                    rows.qkv_stride());
#pragma omp barrier
    worker.share(tokens, 1,
                 [&](std::int64_t begin, std::int64_t end) { write_keys(step, layer, begin, end); });
#pragma omp barrier
    attend(step, layer, step.scratch + worker.number * step.scratch_floats);
#pragma omp barrier
    if (layer + 1 == static_cast<std::size_t>(config_.num_hidden_layers) &&
        std::ssize(batch.wanted_W) < tokens) {  // after the last attention only the wanted tokens matter
      tokens = std::ssize(batch.wanted_W);
#pragma omp single
      for (std::int64_t w = 0; w < tokens; ++w) {
        const std::int64_t t = batch.wanted_W[static_cast<std::size_t>(w)];
        std::copy_n(rows.x_TH + t * h, h, rows.x_TH + w * h);
        std::copy_n(rows.attended_TQ + t * rows.queries, rows.queries, rows.attended_TQ + w * rows.queries);
      }
    }
    add_branch(matrix(kOutput), rows.attended_TQ, rows.queries, norm(kAfterAttention));
    worker.multiply(matrix(kGateUp), branch_input(norm(kBeforeMlp)), tokens, h, rows.gated_TF, rows.middle);
#pragma omp barrier
    add_branch(matrix(kDown), rows.gated_TF, rows.middle, norm(kAfterMlp));
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
  // All heads of a token's queries or keys: a norm over each head or over all of them, as long as its weight
  // is.
  const auto prepare = [&](float* row, std::int64_t heads, const at::Tensor& norm, std::int64_t position,
                           float factor) {
    for (std::int64_t at = 0; norm.defined() && at < heads * d; at += norm.numel())
      kernels::rms_norm_row(row + at, norm.const_data_ptr<float>(), norm.numel(), eps, row + at);
    for (std::int64_t head = 0; head < heads; ++head)
      kernels::rotate_head(row + head * d, cos_PE_.const_data_ptr<float>() + position * planes,
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
    prepare(row, config_.num_attention_heads, query_norm, position, scale);
    prepare(row + step.rows.queries, kv_heads, key_norm, position, 1);
    put(t, step.batch.block_T[static_cast<std::size_t>(t)]);
  }
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
