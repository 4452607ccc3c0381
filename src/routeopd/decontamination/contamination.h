// Which test problems a training file holds, word for word or in part.
//
// A training row and a test problem are a hit when their texts are equal, raw or normalised (normal_text.h),
// or when the row holds at least `coverage` of the problem's distinct n-grams, for any of the sizes asked.
// Coverage is by one row: two rows that hold half of a problem each do not make a whole one. A problem with
// fewer units than n has no n-gram, and coverage 0: it is found when it is equal. A text without any word has
// an empty normal form and stands for itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/decontamination/gram_index.h"
#include "routeopd/decontamination/rows.h"

namespace routeopd::decontamination {

enum class Unit { kWord, kCharacter };

struct Measure {
  Unit unit = Unit::kWord;
  std::size_t n = 0;

  std::string name() const;  // words_8, characters_50
};

inline constexpr std::size_t kLargestGram = 1000;

struct ContaminationOptions {
  std::vector<Measure> measures = {{Unit::kWord, 8}, {Unit::kWord, 13}, {Unit::kCharacter, 50}};
  double coverage = 0.5;  // over 0, at most 1
};

struct TestProblem {
  std::string id;
  std::string text;
  std::size_t file = 0;
  std::string normal;                    // its normal form, which the n-grams are views into
  bool raw = false, normalised = false;  // equal to a training row; what is equal raw is equal normalised
  std::vector<double> coverage;          // the largest of a training row, by measure
};

struct Hit {
  const TestProblem* problem = nullptr;
  bool raw = false, normalised = false;
  std::vector<double> coverage;  // by measure
};

// What a training row is compared by.
struct RowText {
  explicit RowText(const std::string& text);

  NormalText normal;
  Digest raw, normalised;
};

class Contamination {
 public:
  explicit Contamination(ContaminationOptions options);

  // Reads a file of test problems; call it for all of them before check(). Throws UserError for a file
  // without problems.
  void add_test_file(const std::string& path);

  // Compares a training row with all test problems. Gives the hits in the order of the problems; they are
  // valid until the next call.
  std::span<const Hit> check(const RowText& row);

  // What a hit is called: raw, normalised, or the first measure that reaches the threshold.
  std::string kind_of(const Hit& hit) const;
  double coverage_of(const Hit& hit) const;  // 1 where the texts are equal, else that of the kind

  const ContaminationOptions& options() const { return options_; }
  const std::vector<std::string>& files() const { return files_; }
  const std::deque<TestProblem>& problems() const { return problems_; }  // with what check() found so far
  bool too_short(std::size_t problem, std::size_t measure) const {
    return indexes_[measure].grams_of(problem) == 0;
  }

 private:
  // The entry in found_ of a problem that shares something with the current row.
  Hit& found(std::uint32_t problem);
  std::optional<std::size_t> first_covered(const Hit& hit) const;

  ContaminationOptions options_;
  std::vector<std::string> files_;
  std::deque<TestProblem> problems_;  // a deque: views into their texts stay valid
  std::vector<GramIndex> indexes_;    // one per measure
  std::unordered_map<Digest, std::vector<std::uint32_t>, DigestHash> raw_, normalised_;

  std::vector<std::uint32_t> touched_;  // problems that share something with the current row
  std::vector<std::int64_t> place_of_;  // problem -> its place in touched_ and found_; -1
  std::vector<Hit> found_, hits_;       // as many as any row had so far: their memory is used again
};

}  // namespace routeopd::decontamination
