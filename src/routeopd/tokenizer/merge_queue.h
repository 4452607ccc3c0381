// The pairs of a word that can be merged: the lowest rank first, the leftmost position among equals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace routeopd::tokenizer {

struct MergeOffer {
  std::int32_t rank;
  std::int32_t place;
};

// Both queues are kept from word to word to save allocations; merging a word leaves them empty.

// A heap of all offers.
class MergeHeap {
 public:
  bool empty() const { return offers_.empty(); }
  void push(MergeOffer offer) {
    offers_.push_back(static_cast<std::uint64_t>(offer.rank) << 32U |
                      static_cast<std::uint32_t>(offer.place));
    std::push_heap(offers_.begin(), offers_.end(), std::greater<>());
  }
  void trim(std::size_t most_bytes) {
    if (offers_.capacity() * sizeof(offers_[0]) > most_bytes) offers_ = {};
  }
  MergeOffer pop() {
    std::pop_heap(offers_.begin(), offers_.end(), std::greater<>());
    const std::uint64_t first = offers_.back();
    offers_.pop_back();
    return {static_cast<std::int32_t>(first >> 32U), static_cast<std::int32_t>(first & 0xFFFFFFFFU)};
  }

 private:
  std::vector<std::uint64_t> offers_;  // rank << 32 | place
};

// A heap of ranks with a list of positions for each. Positions nearly always come from left to right, so that
// a list is read from its front; if one does not, the rest of its list becomes a heap. One heap of a million
// offers would touch memory all over at every step.
class MergeBuckets {
 public:
  bool empty() const { return ranks_.empty(); }
  void push(MergeOffer offer) {
    Bucket& bucket = bucket_of(offer.rank);
    if (bucket.head == bucket.places.size()) {  // empty
      bucket.places.clear();
      bucket.head = 0;
      bucket.is_heap = false;
      ranks_.push_back(offer.rank);
      std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    }
    if (!bucket.is_heap && bucket.head < bucket.places.size() && offer.place < bucket.places.back()) {
      bucket.places.erase(bucket.places.begin(),
                          bucket.places.begin() + static_cast<std::ptrdiff_t>(bucket.head));
      bucket.head = 0;
      bucket.is_heap = true;
      std::make_heap(bucket.places.begin(), bucket.places.end(), std::greater<>());
    }
    bucket.places.push_back(offer.place);
    if (bucket.is_heap) std::push_heap(bucket.places.begin(), bucket.places.end(), std::greater<>());
  }
  // Frees the memory of an empty queue if it holds more.
  void trim(std::size_t most_bytes) {
    std::size_t held = 0;
    for (const auto& [rank, bucket] : buckets_) held += bucket.places.capacity() * sizeof(std::int32_t) + 64;
    if (held <= most_bytes) return;
    buckets_.clear();
    last_ = nullptr;
  }
  MergeOffer pop() {
    const std::int32_t rank = ranks_.front();
    Bucket& bucket = bucket_of(rank);
    std::int32_t place = 0;
    if (bucket.is_heap) {
      std::pop_heap(bucket.places.begin(), bucket.places.end(), std::greater<>());
      place = bucket.places.back();
      bucket.places.pop_back();
    } else {
      place = bucket.places[bucket.head++];
    }
    if (bucket.head == bucket.places.size()) {
      std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
      ranks_.pop_back();
    }
    return {rank, place};
  }

 private:
  struct Bucket {
    std::vector<std::int32_t> places;
    std::size_t head = 0;
    bool is_heap = false;
  };

  Bucket& bucket_of(std::int32_t rank) {
    if (last_ == nullptr || last_rank_ != rank) {
      last_ = &buckets_[rank];  // nodes of the map do not move
      last_rank_ = rank;
    }
    return *last_;
  }

  std::unordered_map<std::int32_t, Bucket> buckets_;
  std::vector<std::int32_t> ranks_;  // of the buckets that are not empty
  Bucket* last_ = nullptr;
  std::int32_t last_rank_ = 0;
};

}  // namespace routeopd::tokenizer
