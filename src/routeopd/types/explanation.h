// What would be moved where in one response, token by token, and why: plain numbers. probe/explain.h computes
// them, report/explanation.h shows them.
//
// Symbols are those of docs/method.md: pi is a model's whole distribution, p its softmax over the union U.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd {

// One id of U.
struct ExplainedId {
  std::int32_t id = 0;
  double p_student = 0, p_teacher = 0;
  double q_minus = 0, q_plus = 0;  // its share of what is given, of what is taken; at most one is not 0
  double potential = 0;            // g
  double bounded = 0;              // phi_B(g)
  double p_after = 0;              // of the student after the potential-wide exact step
};

// From `source` to `destination`.
struct ExplainedPair {
  std::int32_t source = 0, destination = 0;
  double target = 0;       // wanted change of the pair's log-odds
  double coupling = 0;     // q-(source) q+(destination): how likely a draw is this pair
  std::int32_t draws = 0;  // how many of the m draws are this pair
  // p of the student; none where an id lies outside U (destination controls)
  std::optional<double> source_before, destination_before;
  // the same after the pair-isolated exact step; none where either id lies outside U
  std::optional<double> source_after, destination_after;
};

// The state at which a token of the response was written.
struct ExplainedToken {
  std::int32_t id = 0;                       // the token taken
  double pi_student = 0, pi_teacher = 0;     // of it
  std::string not_routed;                    // why nothing is moved here; empty: something is
  double mass = 0, mass_after = 0;           // M, before and after the potential-wide exact step
  double concentration = 0, budget = 0;      // c, B
  std::int32_t n_excess = 0, n_deficit = 0;  // sources, destinations
  double student_mass = 0, teacher_mass = 0, student_mass_after = 0;  // pi(U)
  std::int64_t support = 0;                                           // ids in U
  std::vector<ExplainedId> ids;      // of U, largest |p_T - p_S| first; not all where U is very large
  std::vector<ExplainedPair> pairs;  // the most likely of the n_excess * n_deficit, most likely first
  std::vector<ExplainedPair> drawn;  // those that the seed draws, in order; none with the exact coupling
};

struct Explanation {
  std::string student, teacher;  // directories
  std::string prompt;            // as the student reads it
  std::vector<std::int32_t> prompt_ids;
  std::string teacher_prompt;  // as the teacher reads it; it and its ids empty: the same
  std::vector<std::int32_t> teacher_prompt_ids;
  std::string response;
  std::string finish;  // stop | length | given
  std::uint64_t seed = 0;
  Json objective;  // every setting of it
  Json decoding;   // null where the response was given
  std::vector<ExplainedToken> tokens;
  std::size_t chosen = 0;                     // the token whose tables are shown
  std::map<std::int32_t, std::string> texts;  // bytes of every id that is named
};

}  // namespace routeopd
