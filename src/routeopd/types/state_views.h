// The states of a rollout and its scores, as routing reads them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "routeopd/types/rollout.h"
#include "routeopd/types/scores.h"
#include "routeopd/types/state_batch.h"

namespace routeopd {

// A view over both; they must outlive it.
inline StateBatch state_batch_of(const Rollout& rollout, const Scores& scores, std::int32_t real_ids) {
  StateBatch batch;
  batch.states = rollout.states();
  batch.real_ids = real_ids;
  batch.student_columns = rollout.columns;
  batch.student_ids_NK = rollout.top_ids_NK.data();
  batch.student_logits_NK = rollout.top_logits_NK.data();
  batch.teacher_at_student_NK = scores.teacher_at_student_NK.data();
  batch.teacher_columns = scores.columns;
  batch.teacher_ids_NJ = scores.teacher_ids_NJ.data();
  batch.teacher_logits_NJ = scores.teacher_logits_NJ.data();
  batch.student_at_teacher_NJ = scores.student_at_teacher_NJ.data();
  if (scores.pool_columns > 0) {
    batch.pool_columns = scores.pool_columns;
    batch.pool_ids_NP = scores.pool_ids_NP.data();
    batch.student_at_pool_NP = scores.student_at_pool_NP.data();
  }
  batch.student_lse_N = rollout.logsumexp_N.data();
  batch.teacher_lse_N = scores.teacher_logsumexp_N.data();
  batch.address_N = rollout.address_N.data();
  batch.validity_N = scores.validity_N.data();
  return batch;
}

}  // namespace routeopd
