// What routing needs of a batch of visited states: both models' top-k and their logits at each other's ids. A
// view: the memory belongs to the rollout and the scores.
//
// Shapes: N states, K columns of the student's top-k, J of the teacher's, P of the background pool, R real
// ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "routeopd/base/philox.h"
#include "routeopd/types/rollout.h"
#include "routeopd/types/scores.h"
#include "routeopd/types/validity.h"

namespace routeopd {

struct StateBatch {
  std::int64_t states = 0;
  std::int32_t real_ids = 0;  // ids are in [0, real_ids); padded rows of a head never take part

  // Student's top-k, -1 pads a short row. Null `student_ids_NK` means the full support: K = J = real_ids,
  // column = id, and only student_logits_NK and teacher_logits_NJ are read.
  std::int32_t student_columns = 0;
  const std::int32_t* student_ids_NK = nullptr;
  const float* student_logits_NK = nullptr;
  const float* teacher_at_student_NK = nullptr;

  std::int32_t teacher_columns = 0;
  const std::int32_t* teacher_ids_NJ = nullptr;
  const float* teacher_logits_NJ = nullptr;
  const float* student_at_teacher_NJ = nullptr;

  // Background pool for the random_background and rank-matched destinations; -1 pads.
  std::int32_t pool_columns = 0;
  const std::int32_t* pool_ids_NP = nullptr;
  const float* student_at_pool_NP = nullptr;

  // Full-vocabulary log-partitions; null where they are not known. One-sided arms need the student's.
  const float* student_lse_N = nullptr;
  const float* teacher_lse_N = nullptr;

  const StateAddress* address_N = nullptr;  // of the random numbers
  const Validity* validity_N = nullptr;     // reasons found upstream; null: all valid so far
};

// The states of a rollout and its scores; both must outlive the view.
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
