// The log-probabilities that a server lists for one state, checked and brought into the order of our arrays:
// the k best real ids, descending, the lower id first among equals, and values looked up at given ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "routeopd/engine/remote/server_api.h"

namespace routeopd::engine {

inline constexpr double kSentinel = -9999.0;  // what servers write for minus infinity
inline constexpr float kNotSent = std::numeric_limits<float>::quiet_NaN();

class ValueRows {
 public:
  ValueRows(std::int32_t real_ids, std::int32_t k);

  // Begins the next state, which messages call `state`.
  void begin(std::int64_t state);

  // One listed value; NaN: the server sent none. Ids of padded rows of the head are counted and left out.
  // Throws BadAnswer for an id that is listed twice.
  void add(std::int32_t id, float value);

  // A number as it was sent: servers write -9999 for minus infinity. Throws BadAnswer for one above 0.
  float log_probability(double sent);

  // The value at `id`, if it was listed for this state.
  std::optional<float> at(std::int32_t id) const;

  // Appends the k best, -1 and NaN where there are fewer real ids. Throws BadAnswer where fewer were listed
  // than k.
  void append_top(std::vector<std::int32_t>& ids_NK, std::vector<float>& logits_NK);

  // Appends the values at `ids`; NaN and not known where none was listed.
  void append_gathered(std::span<const std::int32_t> ids, StateValues& values);

  // Log-probabilities have a log-partition of 0; NaN where one of the state's values is: it is not usable.
  float partition() const;

  void mark_unusable() { nan_ = true; }
  void count(Counts& counts) const;  // adds what was met in all states

 private:
  struct Listed {
    float value;
    std::int32_t id;
  };
  struct Place {
    std::int64_t state;
    float value;
  };

  std::int32_t real_ids_, k_;
  std::int64_t state_ = -1, listed_ = 0;
  bool nan_ = false;
  std::vector<Listed> row_;
  std::vector<Place> place_;  // of each real id
  std::int64_t padded_ = 0, minus_inf_ = 0, not_known_ = 0;
};

}  // namespace routeopd::engine
