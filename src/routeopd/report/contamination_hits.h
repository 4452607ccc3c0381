// Every hit with both texts: JSON lines for programs, a page with the two side by side for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/base/files.h"
#include "routeopd/decontamination/contamination.h"

namespace routeopd::report {

struct ShownHit {
  std::size_t file = 0;
  std::string test_file, test_id, train_id;
  std::string kind;
  double coverage = 0;
  std::vector<std::pair<std::string, double>> coverages;  // by measure
  std::string test, train;                                // the texts
};

// {"test_file", "test_id", "train_id", "kind", "coverage", "coverages": {"words_8", …}, "test", "train"} and
// a line feed.
std::string hit_line(const ShownHit& hit);

// One page, test file by test file; in both texts words are marked that stand in a run of three or more that
// both have. `more`: hits that were found and are not in `hits`.
std::string hits_html(std::vector<ShownHit> hits, std::int64_t more);

class HitReport {
 public:
  // A page where the name ends in .html, else JSON lines. Throws UserError when the file cannot be made.
  explicit HitReport(const std::string& path);

  void add(const decontamination::Contamination& all, const decontamination::Hit& hit,
           const decontamination::ProblemLine& row);
  void finish();  // gives the file its name; without, none is left

 private:
  bool page_;
  AtomicFile file_;
  std::vector<ShownHit> hits_;  // of a page, which is sorted first
  std::size_t bytes_ = 0;
  std::int64_t more_ = 0;
};

}  // namespace routeopd::report
