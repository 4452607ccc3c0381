// The n-grams of test problems in one table, and how many of each problem's a text shares.
//
// An n-gram is n neighbouring units (words or characters), compared by their bytes. Its place in the table
// comes from a rolling hash over the units' hashes; what is found there is compared byte by byte, so that no
// collision is taken for an n-gram. A text of u units costs O(u) look-ups, plus one step for each (n-gram,
// problem) that it shares. Memory: some 70 bytes for each distinct n-gram.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "routeopd/decontamination/normal_text.h"

namespace routeopd::decontamination {

class GramIndex {
 public:
  struct Shared {
    std::uint32_t problem;  // in the order of add()
    std::uint32_t grams;    // distinct n-grams of the problem that the text has, at least 1
  };

  explicit GramIndex(std::size_t n);  // n >= 1

  // The next problem. The index keeps views into `text`, which must stay where it is.
  void add(std::string_view text, const Units& units);

  // Distinct n-grams of a problem; 0 where it has fewer than n units.
  std::uint32_t grams_of(std::size_t problem) const { return grams_of_[problem]; }

  // The problems with which a text has n-grams in common. The answer stays valid until the next call.
  const std::vector<Shared>& shared_with(std::string_view text, const Units& units);

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Place {
    std::uint64_t hash = 0;
    std::uint32_t gram = kNone;
  };
  struct Gram {
    std::string_view text;
    std::uint32_t newest = kNone;  // of its postings
    std::uint32_t seen = 0;        // the last text that had it, counted from 1
  };
  struct Posting {
    std::uint32_t problem;
    std::uint32_t next;
  };

  // Calls use(hash, bytes) for each n-gram of the text.
  template <class Use>
  void for_each_gram(std::string_view text, const Units& units, const Use& use) const;
  Place& place_of(std::uint64_t hash, std::string_view gram);
  void grow();

  std::size_t n_;
  std::uint64_t leaving_;  // base^(n-1): the weight of the unit that leaves the window
  std::vector<Place> places_;
  std::vector<Gram> grams_;
  std::vector<Posting> postings_;
  std::vector<std::uint32_t> grams_of_;
  std::uint32_t texts_ = 0;
  std::vector<std::uint32_t> slot_of_;  // problem -> its place in shared_; kNone
  std::vector<Shared> shared_;
};

}  // namespace routeopd::decontamination
