// Graded responses in any order, checked to fill problems × samples exactly once.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "routeopd/grade/statistics.h"

namespace routeopd::grade {

class ResponseGrid {
 public:
  // Gives the problem's row: rows are in the order in which problems were first seen. sample >= 0.
  std::int64_t add(const std::string& problem, std::int64_t sample, bool correct);

  const std::vector<std::string>& problems() const { return problems_; }

  // Throws UserError, which begins with `where`, when a (problem, sample) is missing or there twice. No
  // sample that was added may reach `samples`.
  Correctness correctness(std::int64_t samples, const std::string& where) const;

 private:
  // A list and not a table: what a file claims about its size takes no memory before it is seen to be true.
  struct Entry {
    std::int64_t problem;
    std::int64_t sample;
    bool correct;
  };
  std::vector<Entry> entries_;
  std::vector<std::string> problems_;
  std::unordered_map<std::string, std::int64_t> rows_;
};

}  // namespace routeopd::grade
