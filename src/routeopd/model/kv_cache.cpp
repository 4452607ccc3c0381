//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/kv_cache.h"

#include <algorithm>

#include "routeopd/base/error.h"
#include "routeopd/model/decoder.h"

namespace routeopd::model {

KvCache::KvCache(const formats::ModelConfig& config, std::int64_t sequences)
    : lengths_B_(at::zeros({sequences}, at::kLong)) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    keys_BMLD_.push_back(at::zeros({sequences, config.num_key_value_heads, 0, config.head_dim}, at::kFloat));
    values_BMLD_.push_back(keys_BMLD_.back());
  }
}

void KvCache::reserve(std::int64_t positions) {
  if (positions <= capacity_) return;
  const std::int64_t more = std::max(positions, capacity_ + capacity_ / 2 + 32) - capacity_;
  for (auto* side : {&keys_BMLD_, &values_BMLD_}) {
    for (at::Tensor& x_BMLD : *side) {
      // Zeros: a position that is not in use is multiplied by a probability of 0, which NaN would survive.
      const at::Tensor room =
          at::zeros({x_BMLD.size(0), x_BMLD.size(1), more, x_BMLD.size(3)}, x_BMLD.options());
      x_BMLD = at::cat({x_BMLD, room}, 2);
    }
  }
  capacity_ += more;
}

at::Tensor KvCache::prefill(const Model& model, const PackedBatch& prompts) {
  ROUTEOPD_INVARIANT(std::ssize(prompts.starts_S1) == sequences() + 1);
  std::vector<std::int64_t> rows, ends;
  for (std::size_t b = 0; b + 1 < prompts.starts_S1.size(); ++b) {
    const std::int64_t length = prompts.starts_S1[b + 1] - prompts.starts_S1[b];
    rows.insert(rows.end(), static_cast<std::size_t>(length), static_cast<std::int64_t>(b));
    ends.push_back(prompts.starts_S1[b + 1] - 1);
    longest_ = std::max(longest_, length);
    lengths_B_[static_cast<std::int64_t>(b)] = length;
  }
  reserve(longest_);
  const at::Tensor rows_T = at::tensor(rows, at::kLong);
  const at::Tensor hidden_TH = decoder_hidden(
      model, prompts.ids_T, prompts.positions_T,
      [&](std::size_t layer, const at::Tensor& q_TND, const at::Tensor& k_TMD, const at::Tensor& v_TMD) {
        // [B, L, M, D] views, so that a (row, position) pair names a place.
        keys_BMLD_[layer].transpose(1, 2).index_put_({rows_T, prompts.positions_T}, k_TMD);
        values_BMLD_[layer].transpose(1, 2).index_put_({rows_T, prompts.positions_T}, v_TMD);
        return packed_attention(prompts, q_TND, k_TMD, v_TMD);
      });
  return hidden_TH.index_select(0, at::tensor(ends, at::kLong));
}

at::Tensor KvCache::step(const Model& model, const at::Tensor& ids_B) {
  const std::int64_t b = sequences();
  const at::Tensor rows_B = at::arange(b, at::kLong);
  const at::Tensor positions_B = lengths_B_.clone();
  ++longest_;
  reserve(longest_);
  const at::Tensor visible_B11L =
      (at::arange(longest_, at::kLong).unsqueeze(0) <= positions_B.unsqueeze(1)).view({b, 1, 1, longest_});
  const at::Tensor hidden_BH = decoder_hidden(
      model, ids_B, positions_B,
      [&](std::size_t layer, const at::Tensor& q_BND, const at::Tensor& k_BMD, const at::Tensor& v_BMD) {
        keys_BMLD_[layer].transpose(1, 2).index_put_({rows_B, positions_B}, k_BMD);
        values_BMLD_[layer].transpose(1, 2).index_put_({rows_B, positions_B}, v_BMD);
        // The N / M query heads of a key-value head are the rows of one small attention: no key is repeated.
        const std::int64_t m = k_BMD.size(1), d = k_BMD.size(2);
        const at::Tensor out_BMGD = at::scaled_dot_product_attention(
            q_BND.view({b, m, -1, d}), keys_BMLD_[layer].slice(2, 0, longest_),
            values_BMLD_[layer].slice(2, 0, longest_), visible_B11L);
        return out_BMGD.reshape({b, -1});
      });
  lengths_B_.add_(1);
  return hidden_BH;
}

void KvCache::select(const at::Tensor& rows) {
  for (std::size_t i = 0; i < keys_BMLD_.size(); ++i) {
    keys_BMLD_[i] = keys_BMLD_[i].index_select(0, rows);
    values_BMLD_[i] = values_BMLD_[i].index_select(0, rows);
  }
  lengths_B_ = lengths_B_.index_select(0, rows);
  longest_ = lengths_B_.numel() == 0 ? 0 : lengths_B_.max().item<std::int64_t>();
}

}  // namespace routeopd::model
