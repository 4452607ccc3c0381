// SPDX-License-Identifier: Apache-2.0
#include "routeopd/decontamination/gram_index.h"

#include <algorithm>

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
  slot_of_.push_back(kNone);
}

const std::vector<GramIndex::Shared>& GramIndex::shared_with(std::string_view text, const Units& units) {
  for (const Shared& before : shared_) slot_of_[before.problem] = kNone;
  shared_.clear();
  if (++texts_ == 0) {  // the counter wrapped: no old number may be taken for a new one
    for (Gram& gram : grams_) gram.seen = 0;
    texts_ = 1;
  }
  for_each_gram(text, units, [&](std::uint64_t hash, std::string_view bytes) {
    const Place& place = place_of(hash, bytes);
    if (place.gram == kNone) return;
    Gram& gram = grams_[place.gram];
    if (gram.seen == texts_) return;
    gram.seen = texts_;
    for (std::uint32_t at = gram.newest; at != kNone; at = postings_[at].next) {
      const std::uint32_t problem = postings_[at].problem;
      if (slot_of_[problem] == kNone) {
        slot_of_[problem] = static_cast<std::uint32_t>(shared_.size());
        shared_.push_back({problem, 0});
      }
      ++shared_[slot_of_[problem]].grams;
    }
  });
  return shared_;
}

}  // namespace routeopd::decontamination
