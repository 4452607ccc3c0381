// Several processes that work on one run: the interface, and one process alone. Every function below is
// called by all ranks, in the same order; a rank that stops or hangs makes it throw UserError on the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace routeopd::ranks {

class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool leads() const { return rank() == 0; }  // writes files, shows progress
  bool alone() const { return size() == 1; }

  // Adds up the tensors of all ranks, in place: the same bits on every rank, and in every run of as many
  // ranks. float32, float64 or int64, each contiguous and of the same shape everywhere.
  virtual void sum(const std::vector<at::Tensor>& tensors) = 0;

  // Rank 0's values, bit by bit, in place of the others'.
  virtual void share(const std::vector<at::Tensor>& tensors) = 0;

  // What each rank says, in the order of the ranks.
  virtual std::vector<std::string> gather(const std::string& bytes) = 0;

  // Returns when all ranks have called it.
  virtual void barrier() = 0;
};

// One process.
Group& alone();

// The group that this process belongs to: alone() unless join() was called. A group is made before the first
// command begins, and stays to the end of the process.
Group& world();
void join(std::unique_ptr<Group> group);

// Sums of plain numbers.
std::vector<double> sum_of(Group& group, std::vector<double> values);

// Sums by name; a name that a rank does not have counts as 0 there.
std::map<std::string, double> sum_of(Group& group, const std::map<std::string, double>& values);

// The largest of all ranks' values.
double largest_of(Group& group, double value);

// Runs `work`. Where it throws on one rank, this throws on all: there the rank's own error, elsewhere a
// UserError with its number and words, or Interrupted where that is what it was.
void together(Group& group, const std::function<void()>& work);

// Interrupted on every rank once a signal has come to one.
void check_interrupt(Group& group);

// Throws UserError, on every rank, where the bits of a tensor differ between ranks; told by sums of them.
void check_equal(Group& group, const std::vector<at::Tensor>& tensors);

// Throws UserError, on every rank, where a value under the same name differs between ranks.
void check_agreement(Group& group, const std::map<std::string, std::string>& said);

}  // namespace routeopd::ranks
