// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/dense_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/kernels/dense_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;

// Sums run in float over blocks of this many elements and in double across them: an error of a few 1e-7
// relative whatever the length of the row.
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

RowLse LogSumExp(const float* row, std::size_t n) {
  const F d;
  V largest = hn::Set(d, -kInfinity);
  const double not_finite = BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V x = Load(row, i, count, -kInfinity);
    largest = hn::Max(largest, x);
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kInfinity)), hn::Set(d, 1.0F));
  });
  if (not_finite > 0) return {std::numeric_limits<float>::quiet_NaN(), 0};
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  if (top == -kInfinity) return {-kInfinity, 0};
  const V shift = hn::Set(d, top);
  const double total = BlockSum(n, [&](std::size_t i, std::size_t count) {
    return hn::Exp(d, hn::Sub(Load(row, i, count, -kInfinity), shift));
  });
  return {top, std::log(total)};
}

// log softmax of one vector. The largest logit is taken off first: that difference is nearly exact, while the
// log-partition itself would round at the size of the logits.
HWY_INLINE V LogSoftmax(V logits, V top, V log_sum) {
  return hn::Sub(hn::Sub(logits, top), log_sum);
}

void Softmax(float* row, std::size_t n, RowLse lse, double scale) {
  const F d;
  const V top = hn::Set(d, lse.top);
  const V log_sum = hn::Set(d, static_cast<float>(lse.log_sum));
  const V factor = hn::Set(d, static_cast<float>(scale));
  BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V p = hn::Exp(d, LogSoftmax(Load(row, i, count, -kInfinity), top, log_sum));
    Store(hn::Mul(factor, p), row, i, count);
    return hn::Zero(d);
  });
}

// Both models' log-probabilities, one vector of ids at a time.
struct TwoRows {
  const float* student;
  const float* teacher;
  V student_top, student_sum, teacher_top, teacher_sum;

  TwoRows(const float* row, RowLse lse, const float* teacher_row, RowLse teacher_lse)
      : student(row),
        teacher(teacher_row),
        student_top(hn::Set(F(), lse.top)),
        student_sum(hn::Set(F(), static_cast<float>(lse.log_sum))),
        teacher_top(hn::Set(F(), teacher_lse.top)),
        teacher_sum(hn::Set(F(), static_cast<float>(teacher_lse.log_sum))) {}

  HWY_INLINE V LogStudent(std::size_t i, std::size_t count) const {
    return LogSoftmax(Load(student, i, count, -kInfinity), student_top, student_sum);
  }
  HWY_INLINE V LogTeacher(std::size_t i, std::size_t count) const {
    return LogSoftmax(Load(teacher, i, count, -kInfinity), teacher_top, teacher_sum);
  }
};

double ReverseKl(float* row, RowLse lse, const float* teacher, RowLse teacher_lse, std::size_t n,
                 float log_delta_p, double scale) {
  const F d;
  const V none = hn::Set(d, -kInfinity);
  const V floor = hn::Set(d, log_delta_p);
  const TwoRows rows(row, lse, teacher, teacher_lse);
  // log pi_theta - log pi_T; zero where the student has no mass.
  const auto log_ratio = [&](V log_student, std::size_t i, std::size_t count) {
    const V log_teacher = rows.LogTeacher(i, count);
    const V ratio = hn::Sub(log_student, hn::IfThenElse(hn::Eq(log_teacher, none), floor, log_teacher));
    return hn::IfThenElseZero(hn::Ne(log_student, none), ratio);
  };
  const double divergence = BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V log_student = rows.LogStudent(i, count);
    return hn::Mul(hn::Exp(d, log_student), log_ratio(log_student, i, count));
  });
  const V mean = hn::Set(d, static_cast<float>(divergence));
  const V factor = hn::Set(d, static_cast<float>(scale));
  BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V log_student = rows.LogStudent(i, count);
    const V pull = hn::Mul(hn::Exp(d, log_student), hn::Sub(log_ratio(log_student, i, count), mean));
    Store(hn::Mul(factor, pull), row, i, count);
    return hn::Zero(d);
  });
  return scale * divergence;
}

double ForwardKl(float* row, RowLse lse, const float* teacher, RowLse teacher_lse, std::size_t n,
                 double scale) {
  const F d;
  const V none = hn::Set(d, -kInfinity);
  const TwoRows rows(row, lse, teacher, teacher_lse);
  const double divergence = BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V log_student = rows.LogStudent(i, count);
    const V log_teacher = rows.LogTeacher(i, count);
    const V p_teacher = hn::Exp(d, log_teacher);
    const auto takes_part = hn::And(hn::Ne(log_student, none), hn::Gt(p_teacher, hn::Zero(d)));
    return hn::IfThenElseZero(takes_part, hn::Mul(p_teacher, hn::Sub(log_teacher, log_student)));
  });
  // The teacher's mass on the ids that take part.
  const double mass = BlockSum(n, [&](std::size_t i, std::size_t count) {
    return hn::IfThenElseZero(hn::Ne(rows.LogStudent(i, count), none), hn::Exp(d, rows.LogTeacher(i, count)));
  });
  const V all = hn::Set(d, static_cast<float>(mass));
  const V factor = hn::Set(d, static_cast<float>(scale));
  BlockSum(n, [&](std::size_t i, std::size_t count) {
    const V log_student = rows.LogStudent(i, count);
    const V surplus = hn::Sub(hn::Mul(all, hn::Exp(d, log_student)), hn::Exp(d, rows.LogTeacher(i, count)));
    Store(hn::IfThenElseZero(hn::Ne(log_student, none), hn::Mul(factor, surplus)), row, i, count);
    return hn::Zero(d);
  });
  return scale * divergence;
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::kernels {

HWY_EXPORT(LogSumExp);
HWY_EXPORT(Softmax);
HWY_EXPORT(ReverseKl);
HWY_EXPORT(ForwardKl);

RowLse row_logsumexp(std::span<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(LogSumExp)(logits.data(), logits.size());
}

void row_softmax(std::span<float> logits, RowLse lse, double scale) {
  HWY_DYNAMIC_DISPATCH(Softmax)(logits.data(), logits.size(), lse, scale);
}

double row_reverse_kl(std::span<float> logits, std::span<const float> teacher, float log_delta_p,
                      double scale, std::int64_t* floored) {
  const float none = -std::numeric_limits<float>::infinity();
  if (floored != nullptr) {
    for (std::size_t v = 0; v < logits.size(); ++v)
      *floored += teacher[v] == none && logits[v] != none ? 1 : 0;
  }
  return HWY_DYNAMIC_DISPATCH(ReverseKl)(logits.data(), row_logsumexp(logits), teacher.data(),
                                         row_logsumexp(teacher), logits.size(), log_delta_p, scale);
}

double row_forward_kl(std::span<float> logits, std::span<const float> teacher, double scale) {
  return HWY_DYNAMIC_DISPATCH(ForwardKl)(logits.data(), row_logsumexp(logits), teacher.data(),
                                         row_logsumexp(teacher), logits.size(), scale);
}

}  // namespace routeopd::kernels
#endif  // HWY_ONCE
