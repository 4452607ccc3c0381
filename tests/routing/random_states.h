// Random states for the tests of routing: full logits of both models, and the same states as the batch the
// kernel takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "routeopd/routing/reference.h"
#include "routeopd/routing/reference_sampling.h"
#include "routeopd/types/state_batch.h"

namespace routeopd::routing::testing {

using reference::Ids;
using reference::Values;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct FullState {
  Values student, teacher;  // over the vocabulary; exact in float
};

// Logits as language models have them: a few large ones over a wide tail; the teacher is the student,
// disturbed.
inline FullState random_state(std::mt19937& random, int vocabulary, double scale = 2,
                              double disturbance = 1) {
  std::normal_distribution<float> normal;
  FullState state;
  for (int v = 0; v < vocabulary; ++v) {
    const float z = static_cast<float>(scale) * normal(random);
    state.student.push_back(static_cast<double>(z));
    state.teacher.push_back(static_cast<double>(z + static_cast<float>(disturbance) * normal(random)));
  }
  return state;
}

inline Values at_ids(const Ids& ids, const Values& values) {
  Values out;
  for (const std::int32_t id : ids) out.push_back(values[static_cast<std::size_t>(id)]);
  return out;
}

inline reference::Transport transport_of(const FullState& state, const ObjectiveOptions& options) {
  const Ids ids = reference::support(state.student, state.teacher, options.k);
  return reference::transport(ids, at_ids(ids, state.student), at_ids(ids, state.teacher), options);
}

// Owns the memory of a StateBatch made from full states.
class OwnedBatch {
 public:
  OwnedBatch(const std::vector<FullState>& states, const ObjectiveOptions& options, std::uint64_t seed) {
    const auto vocabulary = static_cast<std::int32_t>(states.front().student.size());
    const bool full = options.k == kFullSupport;
    const std::int32_t columns = std::min(options.k, vocabulary);
    for (std::size_t n = 0; n < states.size(); ++n) {
      const auto& [student, teacher] = states[n];
      address.push_back({.step = 3,
                         .prompt = static_cast<std::uint32_t>(n % 5),
                         .response = 1,
                         .position = static_cast<std::uint32_t>(n)});
      student_lse.push_back(static_cast<float>(reference::log_sum_exp(student)));
      teacher_lse.push_back(static_cast<float>(reference::log_sum_exp(teacher)));
      const Ids of_student = reference::top_k(student, columns);
      if (full) {
        append(student_logits, student);
        append(teacher_logits, teacher);
      } else {
        const Ids of_teacher = reference::top_k(teacher, columns);
        student_ids.insert(student_ids.end(), of_student.begin(), of_student.end());
        teacher_ids.insert(teacher_ids.end(), of_teacher.begin(), of_teacher.end());
        append(student_logits, at_ids(of_student, student));
        append(teacher_at_student, at_ids(of_student, teacher));
        append(teacher_logits, at_ids(of_teacher, teacher));
        append(student_at_teacher, at_ids(of_teacher, student));
      }
      reference::Pool pool;
      pool.ids = reference::background_pool(of_student, vocabulary, seed, address.back());
      pool.student_logits = at_ids(pool.ids, student);
      pools.push_back(pool);
      pool.ids.resize(kPoolDraws, -1);
      pool.student_logits.resize(kPoolDraws, 0);
      pool_ids.insert(pool_ids.end(), pool.ids.begin(), pool.ids.end());
      append(student_at_pool, pool.student_logits);
    }
    view.states = static_cast<std::int64_t>(states.size());
    view.real_ids = vocabulary;
    view.student_columns = view.teacher_columns = columns;
    view.pool_columns = kPoolDraws;
    view.student_ids_NK = full ? nullptr : student_ids.data();
    view.teacher_ids_NJ = full ? nullptr : teacher_ids.data();
    view.student_logits_NK = student_logits.data();
    view.teacher_at_student_NK = teacher_at_student.data();
    view.teacher_logits_NJ = teacher_logits.data();
    view.student_at_teacher_NJ = student_at_teacher.data();
    view.pool_ids_NP = pool_ids.data();
    view.student_at_pool_NP = student_at_pool.data();
    view.student_lse_N = student_lse.data();
    view.teacher_lse_N = teacher_lse.data();
    view.address_N = address.data();
  }
  OwnedBatch(const OwnedBatch&) = delete;
  OwnedBatch& operator=(const OwnedBatch&) = delete;

  std::vector<std::int32_t> student_ids, teacher_ids, pool_ids;
  std::vector<float> student_logits, teacher_at_student, teacher_logits, student_at_teacher, student_at_pool;
  std::vector<float> student_lse, teacher_lse;
  std::vector<StateAddress> address;
  std::vector<reference::Pool> pools;
  StateBatch view;

 private:
  static void append(std::vector<float>& to, const Values& from) {
    for (const double value : from) to.push_back(static_cast<float>(value));
  }
};

}  // namespace routeopd::routing::testing
