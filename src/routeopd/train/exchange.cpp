// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/exchange.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace routeopd::train {
namespace {

// Past this share of its rows a table travels whole: a ring sends each byte twice, rows that are copied out
// and back cost two passes more.
constexpr double kMostRows = 0.5;

std::string bytes_of(const std::vector<std::int32_t>& rows) {
  std::string bytes(rows.size() * sizeof(std::int32_t), '\0');
  if (!rows.empty()) std::memcpy(bytes.data(), rows.data(), bytes.size());
  return bytes;
}

// Rows that some rank touched, ascending.
std::vector<std::int32_t> united(const std::vector<std::string>& ranks) {
  std::vector<std::int32_t> rows;
  for (const std::string& bytes : ranks) {
    if (bytes.empty()) continue;
    const std::size_t before = rows.size();
    rows.resize(before + bytes.size() / sizeof(std::int32_t));
    std::memcpy(rows.data() + before, bytes.data(), bytes.size());
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

// Returns the bytes that were handed over.
std::int64_t add_up_table(ranks::Group& group, model::HeadGradient& table) {
  const at::Tensor& grad_VH = table.tensor();
  const std::int64_t rows = grad_VH.size(0);
  const bool dense = table.rows().dense_row_count() > 0;
  const auto visited = table.rows().visited_rows();
  std::vector<std::int32_t> own(visited.begin(), visited.end());
  const std::vector<std::string> told = group.gather(dense ? "all" : bytes_of(own));
  const bool some_dense = std::find(told.begin(), told.end(), "all") != told.end();
  const std::vector<std::int32_t> all = some_dense ? std::vector<std::int32_t>() : united(told);
  if (some_dense || static_cast<double>(all.size()) > kMostRows * static_cast<double>(rows)) {
    table.begin_dense(rows);
    group.sum({grad_VH});
    return static_cast<std::int64_t>(grad_VH.nbytes());
  }
  if (all.empty()) return 0;
  const at::Tensor index = at::tensor(all, at::kInt).to(grad_VH.device());
  const at::Tensor rows_UH = grad_VH.index_select(0, index);
  group.sum({rows_UH});
  grad_VH.index_copy_(0, index.to(at::kLong), rows_UH);
  table.rows().touch(all);
  return static_cast<std::int64_t>(rows_UH.nbytes() + own.size() * sizeof(std::int32_t));
}

}  // namespace

void Exchanged::add(const Exchanged& more) {
  bytes += more.bytes;
  dense_bytes += more.dense_bytes;
  seconds += more.seconds;
}

Exchanged add_up_gradients(ranks::Group& group, LossGradients& loss_gradients,
                           const std::vector<at::Tensor>& gradients) {
  Exchanged exchanged;
  if (group.alone()) return exchanged;
  const c10::NoGradGuard no_grad;
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<model::HeadGradient*> tables = loss_gradients.tables();
  std::vector<at::Tensor> body;
  for (const at::Tensor& gradient : gradients) {
    exchanged.dense_bytes += static_cast<std::int64_t>(gradient.nbytes());
    const auto is_table = [&](model::HeadGradient* table) { return table->tensor().is_same(gradient); };
    if (std::ranges::any_of(tables, is_table)) continue;
    body.push_back(gradient);
    exchanged.bytes += static_cast<std::int64_t>(gradient.nbytes());
  }
  group.sum(body);
  for (model::HeadGradient* const table : tables) exchanged.bytes += add_up_table(group, *table);
  exchanged.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return exchanged;
}

}  // namespace routeopd::train
