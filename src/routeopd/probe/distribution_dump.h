// Every distribution of a probe as one safetensors file of logits, for a check by other means: `before` and
// `teacher` [S, R] in float32, `after.NAME` [S, R] in float64, or [S, M, R] for the pair-isolated rows (NaN
// where a state has no such pair), and the frozen sets as `excess` and `deficit` [S, R] in int32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "routeopd/probe/prober.h"

namespace routeopd::probe {

class DistributionDump {
 public:
  // Throws UserError when one set of distributions is larger than a file for checks should be.
  DistributionDump(std::filesystem::path path, const Bank& bank, const Prober& prober,
                   const at::Tensor& teacher_head_UX);

  // Where the rows of an intervention go; `pairs` of them per state.
  AfterRow rows(const std::string& name, std::int32_t pairs);

  void commit();

 private:
  std::filesystem::path path_;
  std::size_t states_ = 0, real_ids_ = 0;
  std::vector<float> before_SR_, teacher_SR_;
  std::vector<std::int32_t> excess_SR_, deficit_SR_;
  struct After {
    std::string name;
    std::size_t pairs;
    std::vector<double> logits;
  };
  std::deque<After> after_;
};

}  // namespace routeopd::probe
