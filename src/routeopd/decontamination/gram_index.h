// The n-grams of test problems in one table, and how many of each problem's a text shares.
//
// An n-gram is n neighbouring units (words or characters), compared by their bytes. Its place in the table
// comes from a rolling hash over the units' hashes; what is found there is compared byte by byte, so that no
// collision is taken for an n-gram.
//
// N-grams that the same problems have are one group: the sentences of a template that all problems follow, or
// whatever a single problem has alone. A text counts its n-grams by group, then adds the count to the group's
// problems; a group of more than half of the problems is added to all, and taken off those that lack it. A
// text of u units costs O(u) look-ups, one step for each problem that is listed in a group it touches, and
// one for each problem if it touches a group of more than half. Memory: some 70 bytes for each distinct
// n-gram.
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

  // The next problem; all come before the first shared_with. The index keeps views into `text`, which must
  // stay where it is.
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
    std::uint32_t newest = kNone;  // of its postings; once there are groups, its group
    std::uint32_t seen = 0;        // the last text that had it, counted from 1
  };
  struct Posting {
    std::uint32_t problem;
    std::uint32_t next;
  };

  // The problems that have each n-gram of the group.
  struct Group {
    std::size_t begin = 0, end = 0;  // of its problems in listed_
    bool lacking = false;            // listed are the problems that do not have them
    std::uint32_t grams = 0;         // of the current text
  };

  // Calls use(hash, bytes) for each n-gram of the text.
  template <class Use>
  void for_each_gram(std::string_view text, const Units& units, const Use& use) const;
  Place& place_of(std::uint64_t hash, std::string_view gram);
  void grow();
  void make_groups();

  std::size_t n_;
  std::uint64_t leaving_;  // base^(n-1): the weight of the unit that leaves the window
  std::vector<Place> places_;
  std::vector<Gram> grams_;
  std::vector<Posting> postings_;  // until there are groups
  std::vector<std::uint32_t> grams_of_;
  bool grouped_ = false;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> listed_;
  std::uint32_t texts_ = 0;
  std::vector<std::uint32_t> touched_;  // groups that the current text has n-grams of
  // By problem, of the current text: less than none where a group of most problems lacks it.
  std::vector<std::int64_t> count_of_;
  std::vector<std::uint32_t> counted_;  // problems with a count
  std::vector<Shared> shared_;
};

}  // namespace routeopd::decontamination
