// What the teacher says of the states that a student visited, with the student's own values there. Rows are
// the states of the Rollout that was scored; those that are not valid hold nothing to be read.
//
// Shapes: N states, K columns of the student's top-k, J of the teacher's, P of the background pool, X the
// teacher's hidden size, T teachers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/types/validity.h"

namespace routeopd {

struct Scores {
  std::int32_t columns = 0;  // J
  std::vector<std::int32_t> teacher_ids_NJ;
  std::vector<float> teacher_logits_NJ;
  std::vector<float> teacher_logsumexp_N;

  // Each model's logits at the ids that the other one chose.
  std::vector<float> teacher_at_student_NK;
  std::vector<float> student_at_teacher_NJ;

  std::vector<float> teacher_logprob_N;  // of the token taken

  // Ids drawn for the background destinations, -1 pads; empty for all other arms.
  std::int32_t pool_columns = 0;
  std::vector<std::int32_t> pool_ids_NP;
  std::vector<float> student_at_pool_NP;

  // The teacher's last hidden states; empty unless the objective walks the whole vocabulary.
  std::int64_t hidden_size = 0;
  std::vector<float> hidden_NX;

  std::vector<Validity> validity_N;
  std::int64_t teacher_tokens = 0;             // read by the teachers, prompts included
  std::vector<std::int64_t> teacher_tokens_T;  // the same by teacher
};

}  // namespace routeopd
