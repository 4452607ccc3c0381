// What routing hands to the learner: for each visited state the pairs to move and by how much, or the whole
// support.
//
// Shapes: N states, M pairs per state, L = sum of the support sizes of all states.
//
// A worked example, one state with two pairs (ids of a small vocabulary, k = 2, B = 0.35):
//   source_NM = {17, 17}   destination_NM = {4, 9}   target_NM = {0.35, 0.31}   old_NM = {-1.2, -2.5}
//   weight_N = {0.42}: 42 % of the mass on the union sits on the wrong tokens; the learner raises
//   z_4 - z_17 by 0.35 and z_9 - z_17 by 0.31 over their old values, with weight 0.42 / 2 each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/types/validity.h"

namespace routeopd {

// The union of both models' top-k at each state, in compressed rows: state n owns [offsets[n], offsets[n +
// 1]). States that are not valid own nothing. Needed by the exact coupling and the union KLs.
struct Support {
  std::vector<std::int64_t> offsets_N1 = {0};
  std::vector<std::int32_t> ids_L;     // ascending within a state
  std::vector<float> old_logits_L;     // behaviour student
  std::vector<float> log_p_teacher_L;  // -inf where the teacher gives no mass
  std::vector<float> p_student_L;
  std::vector<float> p_teacher_L;
  std::vector<float> potential_L;  // g, eq. teacher-token-potential
  std::vector<float> bounded_L;    // phi_B(g), eq. bounded-potential-target; 0 where M = 0

  static constexpr std::int64_t kBytesPerId = 7 * 4;  // of the arrays above
};

struct Routes {
  std::int64_t states = 0;
  std::int32_t pairs = 0;

  // The pairs. -1 ids where the state has none (not valid, not routed, or the exact coupling).
  std::vector<std::int32_t> source_NM;
  std::vector<std::int32_t> destination_NM;
  // Wanted change: of the pair's log-odds, or of one token's log-probability (one-sided arms).
  std::vector<float> target_NM;
  std::vector<float> old_NM;    // the behaviour student's value of that quantity
  std::vector<float> weight_N;  // M, or 1; 0 where not valid or not routed. A pair weighs weight / M pairs

  std::vector<Validity> validity_N;
  std::vector<std::uint8_t> routed_N;  // valid, M > delta_M, and a destination exists

  // Statistics; 0 where the state is not valid, and all but the masses 0 where it is not routed.
  std::vector<float> mass_N;           // M, eq. mismatch-mass
  std::vector<float> concentration_N;  // c, eq. demand-concentration
  std::vector<float> budget_N;         // B, eq. transport-budget
  std::vector<float> coverage_N;       // share of q+ on the distinct destinations used; outside D: nothing
  std::vector<float> saturated_N;      // share of the union with |g| >= B
  std::vector<float> student_mass_N;   // full-vocabulary pi_old(U); NaN without log-partitions
  std::vector<float> teacher_mass_N;   // full-vocabulary pi_T(U); NaN without log-partitions
  std::vector<std::int32_t> n_deficit_N;

  Support support;  // empty unless asked for
};

}  // namespace routeopd
