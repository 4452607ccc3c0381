// A group whose ranks are threads of one process: what ranks do is tested without processes. Sums are taken
// in the order of the ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "routeopd/ranks/group.h"

namespace routeopd::ranks {

struct Meeting {
  explicit Meeting(int size)
      : barrier(size), said(static_cast<std::size_t>(size)), tensors(static_cast<std::size_t>(size)) {}

  std::barrier<> barrier;
  std::vector<std::string> said;
  std::vector<std::vector<at::Tensor>> tensors;
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_.said.size()); }

  void sum(const std::vector<at::Tensor>& tensors) override {
    meet(tensors, [&](std::size_t i) {
      at::Tensor total = meeting_.tensors[0][i].detach().clone();
      for (std::size_t rank = 1; rank < meeting_.tensors.size(); ++rank)
        total.add_(meeting_.tensors[rank][i]);
      return total;
    });
  }
  void share(const std::vector<at::Tensor>& tensors) override {
    meet(tensors, [&](std::size_t i) { return meeting_.tensors[0][i].detach().clone(); });
  }
  std::vector<std::string> gather(const std::string& bytes) override {
    meeting_.said[static_cast<std::size_t>(rank_)] = bytes;
    barrier();
    std::vector<std::string> all = meeting_.said;
    barrier();
    return all;
  }
  void barrier() override { meeting_.barrier.arrive_and_wait(); }

 private:
  void meet(const std::vector<at::Tensor>& tensors, const std::function<at::Tensor(std::size_t)>& result_of) {
    const at::NoGradGuard no_grad;
    meeting_.tensors[static_cast<std::size_t>(rank_)] = tensors;
    barrier();
    std::vector<at::Tensor> results;
    for (std::size_t i = 0; i < tensors.size(); ++i) results.push_back(result_of(i));
    barrier();
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
  }

  Meeting& meeting_;
  int rank_;
};

// Runs `body` on every rank; then throws what the first rank that failed threw.
inline void on_ranks(int size, const std::function<void(Group& group)>& body) {
  Meeting meeting(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadGroup group(meeting, rank);
      try {
        body(group);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
        meeting.barrier.arrive_and_drop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace routeopd::ranks
