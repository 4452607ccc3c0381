// One mask with reasons: why a response state takes no part in the loss. A state is dropped for a named,
// counted reason, never silently.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace routeopd {

// In order of precedence: the first that applies is the state's reason.
enum class Validity : std::uint8_t {
  kValid = 0,
  kPadding,          // a padded position
  kNotGenerated,     // a prompt, tool or template token
  kTruncatedScores,  // an engine's answer is shorter than the response
  kMisaligned,       // an id or a row differs between student and teacher, or lies outside the vocabulary
  kNonFinite,        // NaN, +inf, or every id at -inf
  kEmptySupport,     // no id is left in the union
};

inline constexpr std::array<std::string_view, 7> kValidityNames = {
    "valid", "padding", "not_generated", "truncated_scores", "misaligned", "non_finite", "empty_support"};

// Of two reasons the one that comes first; kValid where there is none.
constexpr Validity first_reason(Validity a, Validity b) {
  if (a == Validity::kValid || b == Validity::kValid) return a == Validity::kValid ? b : a;
  return a < b ? a : b;
}

constexpr std::string_view name_of(Validity validity) {
  return kValidityNames[static_cast<std::size_t>(validity)];
}

}  // namespace routeopd
