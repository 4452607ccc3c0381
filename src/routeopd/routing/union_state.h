// The union of one state inside the fast kernel: working memory that a thread reuses from state to state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace routeopd::routing {

// Vectors are padded to kUnionPad elements with values that leave every sum and count alone (logits -inf, the
// rest 0), so that vector loops have no tails.
inline constexpr std::size_t kUnionPad = 64;

// Stands for "no id here" where ids are compared: it sorts last.
inline constexpr std::int32_t kNoId = std::numeric_limits<std::int32_t>::max();

struct UnionState {
  std::size_t n = 0;  // ids in U
  std::vector<std::int32_t> ids;
  std::vector<float> student_logits, teacher_logits;
  std::vector<float> p_student, p_teacher;
  std::vector<float> excess, deficit;
  std::vector<float> cumulative_excess, cumulative_deficit;
  std::vector<float> potential;
  std::vector<float> bounded;  // filled on request

  double student_lse = 0, teacher_lse = 0;  // on U
  float mass = 0, total_excess = 0, total_deficit = 0, deficit_squares = 0;
  std::int32_t n_deficit = 0;

  // Both models' columns before they are merged; a slot is a column of the student's list, then of the
  // teacher's.
  struct Slots {
    std::vector<std::int32_t> ids, rank, ranked_ids, owner, sorted;
    std::vector<float> student, teacher, ranked_student, ranked_teacher;
  } slots;

  void reserve(std::size_t ids_at_most) {
    const std::size_t room = (ids_at_most + kUnionPad - 1) / kUnionPad * kUnionPad + kUnionPad;
    for (auto* integers : {&ids, &slots.ids, &slots.rank, &slots.ranked_ids, &slots.owner})
      integers->resize(room);
    for (auto* floats : {&student_logits, &teacher_logits, &p_student, &p_teacher, &excess, &deficit,
                         &cumulative_excess, &cumulative_deficit, &potential, &bounded, &slots.student,
                         &slots.teacher, &slots.ranked_student, &slots.ranked_teacher}) {
      floats->resize(room);
    }
  }
};

}  // namespace routeopd::routing
