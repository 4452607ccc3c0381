// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/distribution_dump.h"

#include <algorithm>
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/formats/safetensors.h"
#include "routeopd/probe/vocabulary_rows.h"

namespace routeopd::probe {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 26;

}  // namespace

DistributionDump::DistributionDump(std::filesystem::path path, const Bank& bank, const Prober& prober,
                                   const at::Tensor& teacher_head_UX)
    : path_(std::move(path)), states_(bank.states()), real_ids_(static_cast<std::size_t>(bank.real_ids)) {
  const std::size_t values = states_ * real_ids_;
  if (values > kMostValues)
    throw UserError(
        "--dump: {} states of {} ids are {:.1f} GB a row; it is for small vocabularies, or a small bank",
        states_, real_ids_, static_cast<double>(values) * 8e-9);
  before_SR_.resize(values);
  teacher_SR_.resize(values);
  excess_SR_.resize(values);
  deficit_SR_.resize(values);
  const Endpoint student = prober.before();
  walk_rows(student.hidden_SH, student.head_VH, bank.teacher_hidden_SX, teacher_head_UX, bank.real_ids,
            [&](std::size_t s, std::span<const float> before, std::span<const float> teacher) {
              std::copy(before.begin(), before.end(),
                        before_SR_.begin() + static_cast<std::ptrdiff_t>(s * real_ids_));
              std::copy(teacher.begin(), teacher.end(),
                        teacher_SR_.begin() + static_cast<std::ptrdiff_t>(s * real_ids_));
            });
  for (std::size_t s = 0; s < states_; ++s) {
    const auto& state = prober.frozen().transport_S[s];
    for (std::size_t i = 0; i < state.ids.size(); ++i) {
      const std::size_t at = s * real_ids_ + static_cast<std::size_t>(state.ids[i]);
      excess_SR_[at] = state.excess[i] > 0 ? 1 : 0;
      deficit_SR_[at] = state.deficit[i] > 0 ? 1 : 0;
    }
  }
}

AfterRow DistributionDump::rows(const std::string& name, std::int32_t pairs) {
  const auto count = static_cast<std::size_t>(pairs);
  after_.push_back({.name = "after." + name,
                    .pairs = count,
                    .logits = std::vector<double>(states_ * count * real_ids_, std::nan(""))});
  After& kept = after_.back();
  return [&kept, this](std::size_t state, std::int32_t pair, std::span<const double> logits) {
    const std::size_t row = state * kept.pairs + static_cast<std::size_t>(std::max(pair, 0));
    std::copy(logits.begin(), logits.end(),
              kept.logits.begin() + static_cast<std::ptrdiff_t>(row * real_ids_));
  };
}

void DistributionDump::commit() {
  using formats::TensorType;
  const auto states = static_cast<std::int64_t>(states_), ids = static_cast<std::int64_t>(real_ids_);
  const auto view = [&](std::string name, TensorType type, std::vector<std::int64_t> shape,
                        const auto& values) {
    return formats::TensorView{std::move(name), type, std::move(shape), std::as_bytes(std::span(values))};
  };
  std::vector<formats::TensorView> tensors = {view("before", TensorType::kF32, {states, ids}, before_SR_),
                                              view("teacher", TensorType::kF32, {states, ids}, teacher_SR_),
                                              view("excess", TensorType::kI32, {states, ids}, excess_SR_),
                                              view("deficit", TensorType::kI32, {states, ids}, deficit_SR_)};
  for (const After& after : after_) {
    std::vector<std::int64_t> shape = {states, ids};
    if (after.pairs > 1) shape = {states, static_cast<std::int64_t>(after.pairs), ids};
    tensors.push_back(view(after.name, TensorType::kF64, shape, after.logits));
  }
  formats::write_safetensors(path_, tensors);
}

}  // namespace routeopd::probe
