// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/union_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/routing/union_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace routeopd::routing::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using I = hn::ScalableTag<std::int32_t>;

// n rounded up to whole vectors, or to groups of them; memory has room for that.
HWY_INLINE std::size_t Whole(std::size_t n, std::size_t group) {
  return (n + group - 1) / group * group;
}

// Sums are taken in float over blocks of this many elements and across blocks in double, so that a union of
// the whole vocabulary is as accurate as a small one.
constexpr std::size_t kBlock = 1024;
static_assert(kBlock % kUnionPad == 0, "blocks hold whole vectors");

SlotFlaws ScanSlots(std::int32_t* HWY_RESTRICT ids, const float* HWY_RESTRICT student,
                    const float* HWY_RESTRICT teacher, std::size_t n, std::int32_t real_ids) {
  const I di;
  const F d;
  const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto none = hn::Set(di, -1);
  const auto bound = hn::Set(di, real_ids);
  auto outside = hn::Zero(di);
  auto given = hn::Zero(di);
  auto non_finite = hn::Zero(di);
  for (std::size_t i = 0; i < Whole(n, hn::Lanes(di)); i += hn::Lanes(di)) {
    const auto id = hn::LoadU(di, ids + i);
    const auto is_id = hn::VecFromMask(di, hn::Gt(id, none));
    outside = hn::Or(outside, hn::Or(hn::VecFromMask(di, hn::Lt(id, none)),
                                     hn::VecFromMask(di, hn::Not(hn::Lt(id, bound)))));
    const auto below =
        hn::And(hn::Lt(hn::LoadU(d, student + i), infinity), hn::Lt(hn::LoadU(d, teacher + i), infinity));
    non_finite = hn::Or(non_finite, hn::AndNot(hn::BitCast(di, hn::VecFromMask(d, below)), is_id));
    given = hn::Or(given, is_id);
    hn::StoreU(hn::IfVecThenElse(is_id, id, hn::Set(di, kNoId)), di, ids + i);
  }
  const auto any = [di](auto bits) { return !hn::AllTrue(di, hn::Eq(bits, hn::Zero(di))); };
  return {any(outside), any(non_finite), any(given)};
}

void RankIds(const std::int32_t* HWY_RESTRICT ids, std::size_t n, std::int32_t* HWY_RESTRICT rank) {
  const I d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < Whole(n, 4 * lanes); i += 4 * lanes) {  // four vectors share each broadcast
    const auto v0 = hn::LoadU(d, ids + i);
    const auto v1 = hn::LoadU(d, ids + i + lanes);
    const auto v2 = hn::LoadU(d, ids + i + 2 * lanes);
    const auto v3 = hn::LoadU(d, ids + i + 3 * lanes);
    auto r0 = hn::Zero(d);
    auto r1 = r0;
    auto r2 = r0;
    auto r3 = r0;
    for (std::size_t j = 0; j < n; ++j) {
      const auto other = hn::Set(d, ids[j]);
      r0 = hn::Sub(r0, hn::VecFromMask(d, hn::Lt(other, v0)));
      r1 = hn::Sub(r1, hn::VecFromMask(d, hn::Lt(other, v1)));
      r2 = hn::Sub(r2, hn::VecFromMask(d, hn::Lt(other, v2)));
      r3 = hn::Sub(r3, hn::VecFromMask(d, hn::Lt(other, v3)));
    }
    hn::StoreU(r0, d, rank + i);
    hn::StoreU(r1, d, rank + i + lanes);
    hn::StoreU(r2, d, rank + i + 2 * lanes);
    hn::StoreU(r3, d, rank + i + 3 * lanes);
  }
}

// p = exp(logits - max); returns the sum, and the max by reference.
double ExpAgainstMax(const float* HWY_RESTRICT logits, std::size_t n, float* HWY_RESTRICT p, float* max) {
  const F d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t end = Whole(n, lanes);
  auto largest = hn::LoadU(d, logits);
  for (std::size_t i = lanes; i < end; i += lanes) largest = hn::Max(largest, hn::LoadU(d, logits + i));
  const auto top = hn::MaxOfLanes(d, largest);
  double total = 0;
  for (std::size_t block = 0; block < end; block += kBlock) {
    auto sum = hn::Zero(d);
    for (std::size_t i = block; i < std::min(block + kBlock, end); i += lanes) {
      const auto value = hn::Exp(d, hn::Sub(hn::LoadU(d, logits + i), top));
      hn::StoreU(value, d, p + i);
      sum = hn::Add(sum, value);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  *max = hn::GetLane(top);
  return total;
}

void UnionImbalance(UnionState& state, float log_delta_p) {
  const F d;
  const I di;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t n = Whole(state.n, lanes);
  float max_student = 0;
  float max_teacher = 0;
  const double sum_student =
      ExpAgainstMax(state.student_logits.data(), state.n, state.p_student.data(), &max_student);
  const double sum_teacher =
      ExpAgainstMax(state.teacher_logits.data(), state.n, state.p_teacher.data(), &max_teacher);
  const double log_student = std::log(sum_student);
  const double log_teacher = std::log(sum_teacher);
  state.student_lse = static_cast<double>(max_student) + log_student;
  state.teacher_lse = static_cast<double>(max_teacher) + log_teacher;

  const auto scale_student = hn::Set(d, static_cast<float>(1 / sum_student));
  const auto scale_teacher = hn::Set(d, static_cast<float>(1 / sum_teacher));
  const auto lse_student = hn::Set(d, static_cast<float>(log_student));
  const auto lse_teacher = hn::Set(d, static_cast<float>(log_teacher));
  const auto top_student = hn::Set(d, max_student);
  const auto top_teacher = hn::Set(d, max_teacher);
  const auto floor = hn::Set(d, log_delta_p);
  const auto zero = hn::Zero(d);

  double total_excess = 0;
  double total_deficit = 0;
  double squares = 0;
  auto count = hn::Zero(di);
  for (std::size_t block = 0; block < n; block += kBlock) {
    auto sum_excess = zero;
    auto sum_deficit = zero;
    auto sum_squares = zero;
    for (std::size_t i = block; i < std::min(block + kBlock, n); i += lanes) {
      const auto p_student = hn::Mul(hn::LoadU(d, state.p_student.data() + i), scale_student);
      const auto p_teacher = hn::Mul(hn::LoadU(d, state.p_teacher.data() + i), scale_teacher);
      const auto surplus = hn::Sub(p_student, p_teacher);
      const auto excess = hn::Max(surplus, zero);
      const auto deficit = hn::Max(hn::Neg(surplus), zero);
      hn::StoreU(p_student, d, state.p_student.data() + i);
      hn::StoreU(p_teacher, d, state.p_teacher.data() + i);
      hn::StoreU(excess, d, state.excess.data() + i);
      hn::StoreU(deficit, d, state.deficit.data() + i);
      sum_excess = hn::Add(sum_excess, excess);
      sum_deficit = hn::Add(sum_deficit, deficit);
      sum_squares = hn::MulAdd(deficit, deficit, sum_squares);
      count = hn::Sub(count, hn::BitCast(di, hn::VecFromMask(d, hn::Gt(deficit, zero))));
      // g = l(p_T) - l(p_S) from the logits: log p = (z - max) - log sum, floored; no logarithm of a rounded
      // p.
      const auto z_student = hn::Sub(hn::LoadU(d, state.student_logits.data() + i), top_student);
      const auto z_teacher = hn::Sub(hn::LoadU(d, state.teacher_logits.data() + i), top_teacher);
      const auto potential = hn::Sub(hn::Max(hn::Sub(z_teacher, lse_teacher), floor),
                                     hn::Max(hn::Sub(z_student, lse_student), floor));
      hn::StoreU(potential, d, state.potential.data() + i);
    }
    total_excess += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum_excess)));
    total_deficit += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum_deficit)));
    squares += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum_squares)));
  }
  state.n_deficit = hn::GetLane(hn::SumOfLanes(di, count));
  state.total_excess = static_cast<float>(total_excess);
  state.total_deficit = static_cast<float>(total_deficit);
  state.deficit_squares = static_cast<float>(squares);
  state.mass = static_cast<float>((total_excess + total_deficit) / 2);
}

void BoundedPotentials(const float* HWY_RESTRICT potential, std::size_t n, float budget,
                       float* HWY_RESTRICT bounded) {
  const F d;
  const auto slope = hn::Set(d, 2 / budget);
  const auto half = hn::Set(d, budget / 2);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(half, hn::Tanh(d, hn::Mul(slope, hn::LoadU(d, potential + i)))), d, bounded + i);
  }
}

std::size_t CountSaturated(const float* HWY_RESTRICT values, std::size_t n, float bound) {
  const F d;
  const auto least = hn::Set(d, bound);
  std::size_t count = 0;
  for (std::size_t i = 0; i < Whole(n, hn::Lanes(d)); i += hn::Lanes(d)) {
    count += hn::CountTrue(d, hn::Ge(hn::Abs(hn::LoadU(d, values + i)), least));
  }
  return count;
}

}  // namespace routeopd::routing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::routing {

HWY_EXPORT(ScanSlots);
HWY_EXPORT(RankIds);
HWY_EXPORT(UnionImbalance);
HWY_EXPORT(BoundedPotentials);
HWY_EXPORT(CountSaturated);

SlotFlaws scan_slots(std::int32_t* ids, const float* student, const float* teacher, std::size_t n,
                     std::int32_t real_ids) {
  return HWY_DYNAMIC_DISPATCH(ScanSlots)(ids, student, teacher, n, real_ids);
}

void rank_ids(const std::int32_t* ids, std::size_t n, std::int32_t* rank) {
  HWY_DYNAMIC_DISPATCH(RankIds)(ids, n, rank);
}

void union_imbalance(UnionState& state, float log_delta_p) {
  HWY_DYNAMIC_DISPATCH(UnionImbalance)(state, log_delta_p);
}

void bounded_potentials(const float* potential, std::size_t n, float budget, float* bounded) {
  HWY_DYNAMIC_DISPATCH(BoundedPotentials)(potential, n, budget, bounded);
}

std::size_t count_saturated(const float* values, std::size_t n, float bound) {
  return HWY_DYNAMIC_DISPATCH(CountSaturated)(values, n, bound);
}

}  // namespace routeopd::routing
#endif  // HWY_ONCE
