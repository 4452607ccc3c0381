// SPDX-License-Identifier: Apache-2.0
#include "routeopd/decontamination/gram_index.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"

namespace routeopd::decontamination {
namespace {

// The rolling hash is a polynomial in this number modulo 2^64.
// It is odd, so that no unit's part is shifted out.
constexpr std::uint64_t kBase = 0xD1342543DE82EF95U;

}  // namespace

GramIndex::GramIndex(std::size_t n) : n_(n), leaving_(1), places_(1024) {
  ROUTEOPD_INVARIANT(n >= 1);
  for (std::size_t i = 1; i < n; ++i) leaving_ *= kBase;
}

template <class Use>
void GramIndex::for_each_gram(std::string_view text, const Units& units, const Use& use) const {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < units.hashes.size(); ++i) {
    if (i >= n_) hash -= units.hashes[i - n_] * leaving_;
    hash = hash * kBase + units.hashes[i];
    if (i + 1 < n_) continue;
    const std::size_t begin = units.slices[i + 1 - n_].begin;
    use(folded_product(hash, kBase), text.substr(begin, units.slices[i].end - begin));
  }
}

GramIndex::Place& GramIndex::place_of(std::uint64_t hash, std::string_view gram) {
  const std::size_t mask = places_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    Place& place = places_[at];
    if (place.gram == kNone || (place.hash == hash && grams_[place.gram].text == gram)) return place;
  }
}

void GramIndex::grow() {
  std::vector<Place> old(2 * places_.size());
  old.swap(places_);
  const std::size_t mask = places_.size() - 1;
  for (const Place& place : old) {
    if (place.gram == kNone) continue;
    std::size_t at = place.hash & mask;
    while (places_[at].gram != kNone) at = (at + 1) & mask;
    places_[at] = place;
  }
}

void GramIndex::add(std::string_view text, const Units& units) {
  ROUTEOPD_INVARIANT(!grouped_);
  if (postings_.size() + units.hashes.size() >= kNone)
    throw UserError("the test files have more than {} n-grams; check fewer at a time", kNone - 1);
  const auto problem = static_cast<std::uint32_t>(grams_of_.size());
  std::uint32_t distinct = 0;
  for_each_gram(text, units, [&](std::uint64_t hash, std::string_view bytes) {
    if (2 * (grams_.size() + 1) > places_.size()) grow();
    Place& place = place_of(hash, bytes);
    if (place.gram == kNone) {
      place = {hash, static_cast<std::uint32_t>(grams_.size())};
      grams_.push_back({bytes});
    }
    Gram& gram = grams_[place.gram];
    if (gram.newest != kNone && postings_[gram.newest].problem == problem)
      return;  // the problem had it before
    postings_.push_back({problem, gram.newest});
    gram.newest = static_cast<std::uint32_t>(postings_.size() - 1);
    ++distinct;
  });
  grams_of_.push_back(distinct);
}

void GramIndex::make_groups() {
  grouped_ = true;
  const std::size_t problems = grams_of_.size();
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash;
  std::vector<std::uint32_t> having;  // the problems of an n-gram, in descending order
  std::vector<std::uint32_t> lacking;
  for (Gram& gram : grams_) {
    having.clear();
    std::uint64_t hash = 0;
    for (std::uint32_t at = gram.newest; at != kNone; at = postings_[at].next) {
      having.push_back(postings_[at].problem);
      hash = folded_product(hash + having.back() + 1, kBase);
    }
    const bool most = 2 * having.size() > problems;
    if (most) {  // listed are the others
      lacking.clear();
      std::uint32_t next = static_cast<std::uint32_t>(problems);
      for (const std::uint32_t problem : having) {
        while (--next > problem) lacking.push_back(next);
      }
      while (next > 0) lacking.push_back(--next);
    }
    const std::vector<std::uint32_t>& list = most ? lacking : having;
    const auto [first, last] = by_hash.equal_range(hash);
    const auto same = std::find_if(first, last, [&](const auto& entry) {
      const Group& group = groups_[entry.second];
      return group.lacking == most &&
             std::equal(list.begin(), list.end(), listed_.begin() + static_cast<std::ptrdiff_t>(group.begin),
                        listed_.begin() + static_cast<std::ptrdiff_t>(group.end));
    });
    if (same != last) {
      gram.newest = same->second;
      continue;
    }
    gram.newest = static_cast<std::uint32_t>(groups_.size());
    by_hash.emplace(hash, gram.newest);
    groups_.push_back({.begin = listed_.size(), .end = listed_.size() + list.size(), .lacking = most});
    listed_.insert(listed_.end(), list.begin(), list.end());
  }
  std::vector<Posting>().swap(postings_);
  count_of_.assign(problems, 0);
}

const std::vector<GramIndex::Shared>& GramIndex::shared_with(std::string_view text, const Units& units) {
  if (!grouped_) make_groups();
  if (++texts_ == 0) {  // the counter wrapped: no old number may be taken for a new one
    for (Gram& gram : grams_) gram.seen = 0;
    texts_ = 1;
  }
  touched_.clear();
  for_each_gram(text, units, [&](std::uint64_t hash, std::string_view bytes) {
    const Place& place = place_of(hash, bytes);
    if (place.gram == kNone) return;
    Gram& gram = grams_[place.gram];
    if (gram.seen == texts_) return;
    gram.seen = texts_;
    if (groups_[gram.newest].grams++ == 0) touched_.push_back(gram.newest);
  });
  std::int64_t of_all = 0;  // n-grams of groups that most problems have
  counted_.clear();
  for (const std::uint32_t number : touched_) {
    Group& group = groups_[number];
    const std::int64_t grams = std::exchange(group.grams, 0);
    if (group.lacking) of_all += grams;
    for (std::size_t at = group.begin; at < group.end; ++at) {
      std::int64_t& count = count_of_[listed_[at]];
      if (count == 0) counted_.push_back(listed_[at]);
      count += group.lacking ? -grams : grams;
    }
  }
  shared_.clear();
  const auto take = [&](std::uint32_t problem) {
    const std::int64_t grams = of_all + std::exchange(count_of_[problem], 0);
    if (grams > 0) shared_.push_back({problem, static_cast<std::uint32_t>(grams)});
  };
  if (of_all > 0) {
    for (std::uint32_t problem = 0; problem < count_of_.size(); ++problem) take(problem);
  } else {
    for (const std::uint32_t problem : counted_) take(problem);
  }
  return shared_;
}

}  // namespace routeopd::decontamination
