// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/kernels/dense_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/model/kernels/dense_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace routeopd::model::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;

// Sums run in float over blocks of this many elements and in double across them: an error of a few 1e-7 relative
// whatever the length of the row.
constexpr std::size_t kBlock = 2048;

// Calls body(i, valid) on whole vectors and, for the tail, on a masked one; sums what it returns.
template <class Body>
double BlockSum(std::size_t n, const Body& body) {
  const F d;
  const std::size_t lanes = hn::Lanes(d);
  double total = 0;
  for (std::size_t block = 0; block < n; block += kBlock) {
    const std::size_t end = std::min(block + kBlock, n);
    V sum = hn::Zero(d);
    std::size_t i = block;
    for (; i + lanes <= end; i += lanes) sum = hn::Add(sum, body(i, lanes));
    if (i < end) sum = hn::Add(sum, body(i, end - i));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

// A vector of row[i, i + count), the rest `fill`.
V Load(const float* HWY_RESTRICT row, std::size_t i, std::size_t count, float fill) {
  const F d;
  if (count == hn::Lanes(d)) return hn::LoadU(d, row + i);
  HWY_ALIGN float part[hn::MaxLanes(d)];
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) part[lane] = lane < count ? row[i + lane] : fill;
  return hn::Load(d, part);
}

void Store(V value, float* HWY_RESTRICT row, std::size_t i, std::size_t count) {
  const F d;
  if (count == hn::Lanes(d)) {
    hn::StoreU(value, d, row + i);
    return;
  }
  HWY_ALIGN float part[hn::MaxLanes(d)];
  hn::Store(value, d, part);
  std::copy_n(part, count, row + i);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double LogSumExp(const float* row, std::size_t n) {
  const F d;
  V largest = hn::Set(d, -kInfinity);
  const double not_finite = BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V x = Load(row, i, count, -kInfinity);
    largest = hn::Max(largest, x);
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kInfinity)), hn::Set(d, 1.0F));
  });
  if (not_finite > 0) return std::numeric_limits<double>::quiet_NaN();
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  if (top == -kInfinity) return -std::numeric_limits<double>::infinity();
  const V shift = hn::Set(d, top);
  const double total = BlockSum(n, [&](std::size_t i, std::size_t count) {
    return hn::Exp(d, hn::Sub(Load(row, i, count, -kInfinity), shift));
  });
  return static_cast<double>(top) + std::log(total);
}

void Softmax(float* row, std::size_t n, double lse, double scale) {
  const F d;
  const V shift = hn::Set(d, static_cast<float>(lse));
  const V factor = hn::Set(d, static_cast<float>(scale));
  BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V p = hn::Mul(factor, hn::Exp(d, hn::Sub(Load(row, i, count, -kInfinity), shift)));
    Store(p, row, i, count);
    return hn::Zero(d);
  });
}

// log pi_theta(v) - log pi_T(v), and pi_theta(v), of one vector of ids; both zero where the student has no mass.
struct Ratio {
  V log_ratio;
  V p;
};

HWY_INLINE Ratio LogRatio(V student, V teacher, V student_lse, V teacher_lse, V floor) {
  const F d;
  const V none = hn::Set(d, -kInfinity);
  const V log_student = hn::Sub(student, student_lse);
  const V log_teacher = hn::IfThenElse(hn::Eq(teacher, none), floor, hn::Sub(teacher, teacher_lse));
  const auto takes_part = hn::Ne(student, none);
  return {hn::IfThenElseZero(takes_part, hn::Sub(log_student, log_teacher)), hn::Exp(d, log_student)};
}

double ReverseKl(float* row, const float* teacher, std::size_t n, double lse, double teacher_lse, float log_delta_p,
                 double scale) {
  const F d;
  const V shift = hn::Set(d, static_cast<float>(lse));
  const V teacher_shift = hn::Set(d, static_cast<float>(teacher_lse));
  const V floor = hn::Set(d, log_delta_p);
  const double divergence = BlockSum(n, [&](std::size_t i, std::size_t count) {
    const Ratio r = LogRatio(Load(row, i, count, -kInfinity), Load(teacher, i, count, 0), shift, teacher_shift, floor);
    return hn::Mul(r.p, r.log_ratio);
  });
  const V mean = hn::Set(d, static_cast<float>(divergence));
  const V factor = hn::Set(d, static_cast<float>(scale));
  BlockSum(n, [&](std::size_t i, std::size_t count) {
    const Ratio r = LogRatio(Load(row, i, count, -kInfinity), Load(teacher, i, count, 0), shift, teacher_shift, floor);
    Store(hn::Mul(factor, hn::Mul(r.p, hn::Sub(r.log_ratio, mean))), row, i, count);
    return hn::Zero(d);
  });
  return scale * divergence;
}

double ForwardKl(float* row, const float* teacher, std::size_t n, double lse, double teacher_lse, double scale) {
  const F d;
  const V none = hn::Set(d, -kInfinity);
  const V shift = hn::Set(d, static_cast<float>(lse));
  const V teacher_shift = hn::Set(d, static_cast<float>(teacher_lse));
  const double divergence = BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V student = Load(row, i, count, -kInfinity);
    const V log_teacher = hn::Sub(Load(teacher, i, count, -kInfinity), teacher_shift);
    const V p_teacher = hn::Exp(d, log_teacher);
    const auto takes_part = hn::And(hn::Ne(student, none), hn::Gt(p_teacher, hn::Zero(d)));
    return hn::IfThenElseZero(takes_part, hn::Mul(p_teacher, hn::Sub(log_teacher, hn::Sub(student, shift))));
  });
  // The teacher's mass on the ids that take part.
  const double mass = BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V p_teacher = hn::Exp(d, hn::Sub(Load(teacher, i, count, -kInfinity), teacher_shift));
    return hn::IfThenElseZero(hn::Ne(Load(row, i, count, -kInfinity), none), p_teacher);
  });
  const V all = hn::Set(d, static_cast<float>(mass));
  const V factor = hn::Set(d, static_cast<float>(scale));
  BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V student = Load(row, i, count, -kInfinity);
    const V p = hn::Exp(d, hn::Sub(student, shift));
    const V p_teacher = hn::Exp(d, hn::Sub(Load(teacher, i, count, -kInfinity), teacher_shift));
    const V pull = hn::Mul(factor, hn::Sub(hn::Mul(all, p), p_teacher));
    Store(hn::IfThenElseZero(hn::Ne(student, none), pull), row, i, count);
    return hn::Zero(d);
  });
  return scale * divergence;
}

}  // namespace routeopd::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::model {

HWY_EXPORT(LogSumExp);
HWY_EXPORT(Softmax);
HWY_EXPORT(ReverseKl);
HWY_EXPORT(ForwardKl);

double row_logsumexp(std::span<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(LogSumExp)(logits.data(), logits.size());
}

void row_softmax(std::span<float> logits, double lse, double scale) {
  HWY_DYNAMIC_DISPATCH(Softmax)(logits.data(), logits.size(), lse, scale);
}

double row_reverse_kl(std::span<float> logits, std::span<const float> teacher, float log_delta_p, double scale,
                      std::int64_t* floored) {
  const double teacher_lse = row_logsumexp(teacher);
  if (floored != nullptr) {
    for (std::size_t v = 0; v < logits.size(); ++v) {
      const float none = -std::numeric_limits<float>::infinity();
      *floored += teacher[v] == none && logits[v] != none ? 1 : 0;
    }
  }
  return HWY_DYNAMIC_DISPATCH(ReverseKl)(logits.data(), teacher.data(), logits.size(), row_logsumexp(logits),
                                         teacher_lse, log_delta_p, scale);
}

double row_forward_kl(std::span<float> logits, std::span<const float> teacher, double scale) {
  return HWY_DYNAMIC_DISPATCH(ForwardKl)(logits.data(), teacher.data(), logits.size(), row_logsumexp(logits),
                                         row_logsumexp(teacher), scale);
}

}  // namespace routeopd::model
#endif  // HWY_ONCE
