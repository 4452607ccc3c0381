// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/union_builder.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "routeopd/routing/union_kernel.h"

namespace routeopd::routing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int32_t kNoOwner = -1;

// Past this many ids a comparison sort beats counting ranks.
constexpr std::size_t kRankSortLimit = 512;

bool is_nan_or_plus_infinity(float value) {
  return !(value < kInfinity);
}

void pad_logits(UnionState& state) {
  const auto end = static_cast<std::ptrdiff_t>(state.n);
  std::fill_n(state.student_logits.begin() + end, kUnionPad, -kInfinity);
  std::fill_n(state.teacher_logits.begin() + end, kUnionPad, -kInfinity);
}

// What is left to judge once every value was read: the first reason that applies.
Validity judge(const UnionState& state, bool non_finite, bool any_id) {
  if (non_finite) return Validity::kNonFinite;
  if (!any_id) return Validity::kEmptySupport;
  const auto end = state.teacher_logits.begin() + static_cast<std::ptrdiff_t>(state.n);
  const bool teacher_has_mass =
      std::any_of(state.teacher_logits.begin(), end, [](float logit) { return logit > -kInfinity; });
  return teacher_has_mass ? Validity::kValid : Validity::kNonFinite;  // every id at -inf in one of the models
}

// Smaller ids before each slot, so that slots of one id share a rank.
void rank_slots(UnionState::Slots& slot, std::size_t count) {
  if (count <= kRankSortLimit) {
    rank_ids(slot.ids.data(), count, slot.rank.data());
    return;
  }
  const auto id_of = [&](std::int32_t at) { return slot.ids[static_cast<std::size_t>(at)]; };
  slot.sorted.resize(count);
  std::iota(slot.sorted.begin(), slot.sorted.end(), 0);
  std::sort(slot.sorted.begin(), slot.sorted.end(),
            [&](std::int32_t left, std::int32_t right) { return id_of(left) < id_of(right); });
  std::size_t rank = 0;
  for (std::size_t position = 0; position < count; ++position) {
    if (id_of(slot.sorted[position]) != id_of(slot.sorted[rank])) rank = position;
    slot.rank[static_cast<std::size_t>(slot.sorted[position])] = static_cast<std::int32_t>(rank);
  }
}

// Moves the ranked slots that the student can reach to the front of the union, in order. Without branches:
// about every third slot is a gap, in no pattern that a processor could predict.
void compact(UnionState& state, std::size_t slots) {
  const std::int32_t* from_ids = state.slots.ranked_ids.data();
  const float* from_student = state.slots.ranked_student.data();
  const float* from_teacher = state.slots.ranked_teacher.data();
  std::int32_t* ids = state.ids.data();
  float* student = state.student_logits.data();
  float* teacher = state.teacher_logits.data();
  std::size_t n = 0;
  for (std::size_t i = 0; i < slots; ++i) {
    ids[n] = from_ids[i];
    student[n] = from_student[i];
    teacher[n] = from_teacher[i];
    n += from_student[i] != -kInfinity ? 1 : 0;  // NaN stays, for the caller to judge
  }
  state.n = n;
}

Validity build_full(const StateBatch& batch, std::int64_t at, UnionState& state) {
  const float* student = batch.student_logits_NK + at * batch.real_ids;
  const float* teacher = batch.teacher_logits_NJ + at * batch.real_ids;
  bool non_finite = false;
  state.n = 0;
  for (std::int32_t id = 0; id < batch.real_ids; ++id) {
    non_finite |= is_nan_or_plus_infinity(student[id]) || is_nan_or_plus_infinity(teacher[id]);
    state.ids[state.n] = id;
    state.student_logits[state.n] = student[id];
    state.teacher_logits[state.n] = teacher[id];
    state.n += student[id] > -kInfinity ? 1 : 0;
  }
  pad_logits(state);
  return judge(state, non_finite, batch.real_ids > 0);
}

}  // namespace

std::size_t union_bound(const StateBatch& batch) {
  if (batch.student_ids_NK == nullptr) return static_cast<std::size_t>(batch.real_ids);
  return static_cast<std::size_t>(batch.student_columns) + static_cast<std::size_t>(batch.teacher_columns);
}

Validity build_union(const StateBatch& batch, std::int64_t at, UnionState& state) {
  if (batch.student_ids_NK == nullptr) return build_full(batch, at, state);

  // A slot is a column of the student's list, then of the teacher's.
  const auto k = static_cast<std::size_t>(batch.student_columns);
  const auto j = static_cast<std::size_t>(batch.teacher_columns);
  const std::size_t slots = k + j;
  UnionState::Slots& slot = state.slots;
  std::copy_n(batch.student_ids_NK + at * batch.student_columns, k, slot.ids.data());
  std::copy_n(batch.teacher_ids_NJ + at * batch.teacher_columns, j, slot.ids.data() + k);
  std::copy_n(batch.student_logits_NK + at * batch.student_columns, k, slot.student.data());
  std::copy_n(batch.student_at_teacher_NJ + at * batch.teacher_columns, j, slot.student.data() + k);
  std::copy_n(batch.teacher_at_student_NK + at * batch.student_columns, k, slot.teacher.data());
  std::copy_n(batch.teacher_logits_NJ + at * batch.teacher_columns, j, slot.teacher.data() + k);
  std::fill_n(slot.ids.data() + slots, kUnionPad, -1);
  const SlotFlaws flaws =
      scan_slots(slot.ids.data(), slot.student.data(), slot.teacher.data(), slots, batch.real_ids);
  if (flaws.misaligned) return Validity::kMisaligned;
  rank_slots(slot, slots);

  // Every slot goes to its rank, the teacher's first: where both lists have an id the student's slot stays,
  // with a gap after it. Gaps, like ids that the student cannot reach, are at -inf in the student and are
  // squeezed out afterwards. Plain local pointers, and no bytes: through vectors or chars the compiler must
  // assume that every store may change the others.
  std::int32_t* ids = slot.ranked_ids.data();
  std::int32_t* owner = slot.owner.data();
  float* student = slot.ranked_student.data();
  float* teacher = slot.ranked_teacher.data();
  const std::int32_t* from_ids = slot.ids.data();
  const std::int32_t* rank = slot.rank.data();
  const float* from_student = slot.student.data();
  const float* from_teacher = slot.teacher.data();
  std::fill_n(student, slots + kUnionPad, -kInfinity);
  std::fill_n(owner, slots, kNoOwner);
  bool repeated = false;  // one list naming an id twice is not a top-k
  const auto place = [&](std::size_t begin, std::size_t end, std::int32_t list) {
    for (std::size_t from = begin; from < end; ++from) {
      if (from_ids[from] == kNoId) continue;
      const std::int32_t to = rank[from];
      repeated |= owner[to] == list;
      owner[to] = list;
      ids[to] = from_ids[from];
      student[to] = from_student[from];
      teacher[to] = from_teacher[from];
    }
  };
  place(k, slots, 1);
  place(0, k, 0);
  if (repeated) return Validity::kMisaligned;
  compact(state, slots);
  pad_logits(state);
  return judge(state, flaws.non_finite, flaws.any_id);
}

}  // namespace routeopd::routing
