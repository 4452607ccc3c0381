// The machinery of `routeopd bench`: a ratio of two things that do the same work, checked to agree, then
// timed interleaved in one run. Each file bench_*.cpp measures one group of ratios of docs/performance.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "progress.h"
#include "routeopd/base/fields.h"

namespace routeopd::app {

// One row of the result.
struct Ratio {
  std::string id;    // as in docs/performance.md
  std::string what;  // ours / the other
  std::string shape;
  int threads = 1;
  double ours = 0;  // seconds, bytes or error, in `unit`
  double other = 0;
  std::string unit = "s";
  double target = 0;
  bool at_least = false;  // the ratio is to be at least the target, else at most
  std::string check;      // how the two were seen to agree, with the figure

  double ratio() const { return ours / other; }
  bool met() const { return at_least ? ratio() >= target : ratio() <= target; }
};

struct BenchOptions {
  std::vector<std::string> only;  // ids; empty: all
  std::int64_t tokens = 2048;     // of the learner heads
  int rounds = 5;
  int threads = 0;  // 0: all cores
  std::uint64_t seed = 42;
};

struct Shape {
  std::int64_t hidden;
  std::int64_t vocabulary;
  std::string name() const { return fmt::format("H={} V={}", hidden, vocabulary); }
};
inline const std::vector<Shape> kShapes = {{576, 49152}, {1536, 151936}};

// Where the groups put their ratios, and say what they are at.
class Bench {
 public:
  Bench(const BenchOptions& options, bool quiet);

  const BenchOptions& options() const { return options_; }
  bool wants(const std::string& id) const;
  void say(const std::string& what);
  void add(Ratio ratio) { ratios_.push_back(std::move(ratio)); }
  const std::vector<Ratio>& ratios() const { return ratios_; }

 private:
  BenchOptions options_;
  bool quiet_;
  std::vector<Ratio> ratios_;
};

// Median seconds of each side, run in turn `rounds` times after one round that does not count.
std::vector<double> interleaved_medians(int rounds, const std::vector<std::function<void()>>& sides);

// Throws unless two results that must agree do; returns "what: 1e-7" for the record.
std::string agreed(const std::string& what, double difference, double allowed);

void bench_routing(Bench& bench);
void bench_learner_heads(Bench& bench);
void bench_scoring(Bench& bench);
void bench_load(Bench& bench);
void bench_training(Bench& bench);

}  // namespace routeopd::app
