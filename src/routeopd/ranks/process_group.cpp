// SPDX-License-Identifier: Apache-2.0
#include "routeopd/ranks/process_group.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd::ranks {
namespace {

// Small tensors travel together, large ones by themselves.
constexpr std::int64_t kBucketBytes = 32 << 20;

constexpr std::int64_t kLengthBytes = sizeof(std::int64_t), kShortBytes = 248;

class ProcessGroup : public Group {
 public:
  explicit ProcessGroup(c10::intrusive_ptr<c10d::ProcessGroup> group) : group_(std::move(group)) {}

  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  void sum(const std::vector<at::Tensor>& tensors) override {
    in_buckets(tensors, [&](at::Tensor flat) {
      std::vector<at::Tensor> one = {std::move(flat)};
      return group_->allreduce(one, {});
    });
  }

  void share(const std::vector<at::Tensor>& tensors) override {
    in_buckets(tensors, [&](at::Tensor flat) {
      std::vector<at::Tensor> one = {std::move(flat)};
      return group_->broadcast(one, {});
    });
  }

  // Short words travel with their length, in one exchange.
  std::vector<std::string> gather(const std::string& bytes) override {
    const auto own = static_cast<std::int64_t>(bytes.size());
    at::Tensor short_words = at::zeros({kLengthBytes + kShortBytes}, at::kByte);
    std::memcpy(short_words.mutable_data_ptr(), &own, kLengthBytes);
    std::memcpy(short_words.mutable_data_ptr<std::uint8_t>() + kLengthBytes, bytes.data(),
                std::min<std::size_t>(bytes.size(), kShortBytes));
    const std::vector<at::Tensor> begins = gathered(short_words);
    std::vector<std::int64_t> lengths(begins.size());
    for (std::size_t rank = 0; rank < begins.size(); ++rank)
      std::memcpy(&lengths[rank], begins[rank].const_data_ptr(), kLengthBytes);
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    std::vector<at::Tensor> all;
    if (longest <= kShortBytes) {
      for (const at::Tensor& begin : begins) all.push_back(begin.narrow(0, kLengthBytes, kShortBytes));
    } else {
      at::Tensor padded = at::zeros({longest}, at::kByte);
      std::memcpy(padded.mutable_data_ptr(), bytes.data(), bytes.size());
      all = gathered(padded);
    }
    std::vector<std::string> words;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      words.emplace_back(reinterpret_cast<const char*>(all[rank].const_data_ptr<std::uint8_t>()),
                         static_cast<std::size_t>(lengths[rank]));
    return words;
  }

  void barrier() override {
    waited([&] { return group_->barrier(); });
  }

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;

  // A collective that fails, or waits longer than the group's timeout, is another rank's end.
  template <class Begin>
  void waited(const Begin& begin) {
    try {
      begin()->wait();
    } catch (const std::exception& error) {
      throw UserError(
          "another rank stopped, or did not answer in the group's time ({}); the newest checkpoint is whole, "
          "and the same command with --resume continues",
          first_sentence(error.what()));
    }
  }

  // Of what Gloo or NCCL say, without the place in their sources.
  static std::string first_sentence(std::string words) {
    if (words.starts_with('[')) words.erase(0, words.find("] ") + 2);
    return words.substr(0, std::min(words.find('\n'), words.find(". ")));
  }

  std::vector<at::Tensor> gathered(const at::Tensor& own) {
    std::vector<std::vector<at::Tensor>> all(1);
    for (int rank = 0; rank < size(); ++rank) all.front().push_back(at::empty_like(own));
    std::vector<at::Tensor> one = {own};
    waited([&] { return group_->allgather(all, one, {}); });
    return std::move(all.front());
  }

  // Runs `collective` on tensors of one type, laid one after another in a flat one.
  template <class Collective>
  void in_buckets(const std::vector<at::Tensor>& tensors, const Collective& collective) {
    const at::NoGradGuard no_grad;
    for (std::size_t first = 0; first < tensors.size();) {
      std::size_t end = first;
      std::int64_t bytes = 0;
      while (end < tensors.size() && tensors[end].scalar_type() == tensors[first].scalar_type() &&
             tensors[end].device() == tensors[first].device() &&
             (end == first || bytes + static_cast<std::int64_t>(tensors[end].nbytes()) <= kBucketBytes))
        bytes += static_cast<std::int64_t>(tensors[end++].nbytes());
      if (end == first + 1) {
        waited([&] { return collective(tensors[first].view({-1})); });
      } else {
        std::vector<at::Tensor> parts;
        for (std::size_t i = first; i < end; ++i) parts.push_back(tensors[i].view({-1}));
        const at::Tensor flat = at::cat(parts);
        waited([&] { return collective(flat); });
        std::int64_t at = 0;
        for (at::Tensor& part : parts) {
          part.copy_(flat.narrow(0, at, part.numel()));
          at += part.numel();
        }
      }
      first = end;
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace

std::unique_ptr<Group> make_process_group(const std::string& name) {
  try {
    return std::make_unique<ProcessGroup>(c10d::resolve_process_group(name));
  } catch (const std::exception&) {
    throw UserError("process group {}: torch.distributed has none of that name in this process", name);
  }
}

}  // namespace routeopd::ranks
