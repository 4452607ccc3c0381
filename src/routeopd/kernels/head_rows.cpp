// Highway kernels of head_rows.h. Columns are walked in chunks of kChunk: prefetch that chunk of the rows to
// come, then compute. Four rows (or two pairs) go together, so that one load of the hidden row serves all
// four, and a gradient row is loaded and stored once for four visits. Columns past the last whole vector are
// done one by one: nothing outside a row is read or written.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/head_rows.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/kernels/head_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "routeopd/kernels/row_elements-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

constexpr std::size_t kChunk = 64;  // columns: two of the longest vectors, two to four cache lines
constexpr std::size_t kLineBytes = 64;

// How far ahead rows are prefetched: two tokens of two pairs, the next group of logits, and enough hidden
// rows that those of a run of single visits are there in time. Little depends on them: the hardware follows a
// row by itself.
constexpr std::int64_t kPairsAhead = 4;
constexpr std::int64_t kRowsAhead = 4;
constexpr std::int64_t kVisitsAhead = 16;

using Floats = hn::CappedTag<float, kChunk / 2>;
using FloatVector = hn::Vec<Floats>;

template <class T>
HWY_INLINE FloatVector load(const T* from) {
  return load_as_float(Floats(), from);
}

HWY_INLINE float sum_of(FloatVector a, FloatVector b) {
  return hn::GetLane(hn::SumOfLanes(Floats(), hn::Add(a, b)));
}

template <class T>
HWY_INLINE void prefetch_chunk(const T* row, std::size_t column) {
  const char* bytes = reinterpret_cast<const char*>(row + column);
  for (std::size_t at = 0; at < kChunk * sizeof(T); at += kLineBytes) __builtin_prefetch(bytes + at, 0, 3);
}

// Four rows to read, and the four to fetch meanwhile.
template <class T>
struct FourRows {
  const T* row[4] = {};
  const T* next[4] = {};
};

template <class T>
HWY_INLINE void prefetch_chunk(const FourRows<T>& rows, std::size_t column) {
  for (const T* next : rows.next) prefetch_chunk(next, column);
}

template <class H, class W>
HWY_INLINE void dot_four_rows(const H* hidden, const FourRows<W>& rows, std::size_t width, float* out) {
  const std::size_t lanes = hn::Lanes(Floats());
  const W *r0 = rows.row[0], *r1 = rows.row[1], *r2 = rows.row[2], *r3 = rows.row[3];
  FloatVector a0 = hn::Zero(Floats()), a1 = a0, a2 = a0, a3 = a0;  // even vectors
  FloatVector b0 = a0, b1 = a0, b2 = a0, b3 = a0;                  // odd vectors
  std::size_t x = 0;
  for (; x + kChunk <= width; x += kChunk) {
    prefetch_chunk(rows, x);
    for (std::size_t at = x; at < x + kChunk; at += 2 * lanes) {
      const FloatVector h = load(hidden + at), g = load(hidden + at + lanes);
      a0 = hn::MulAdd(h, load(r0 + at), a0);
      a1 = hn::MulAdd(h, load(r1 + at), a1);
      a2 = hn::MulAdd(h, load(r2 + at), a2);
      a3 = hn::MulAdd(h, load(r3 + at), a3);
      b0 = hn::MulAdd(g, load(r0 + at + lanes), b0);
      b1 = hn::MulAdd(g, load(r1 + at + lanes), b1);
      b2 = hn::MulAdd(g, load(r2 + at + lanes), b2);
      b3 = hn::MulAdd(g, load(r3 + at + lanes), b3);
    }
  }
  for (; x + lanes <= width; x += lanes) {
    const FloatVector h = load(hidden + x);
    a0 = hn::MulAdd(h, load(r0 + x), a0);
    a1 = hn::MulAdd(h, load(r1 + x), a1);
    a2 = hn::MulAdd(h, load(r2 + x), a2);
    a3 = hn::MulAdd(h, load(r3 + x), a3);
  }
  out[0] = sum_of(a0, b0);
  out[1] = sum_of(a1, b1);
  out[2] = sum_of(a2, b2);
  out[3] = sum_of(a3, b3);
  for (; x < width; ++x) {
    for (int i = 0; i < 4; ++i) out[i] += widen(hidden[x]) * widen(rows.row[i][x]);
  }
}

// rows: source, destination, source, destination.
template <class H, class W>
HWY_INLINE void dot_two_pairs(const H* hidden, const FourRows<W>& rows, std::size_t width, float* out) {
  const std::size_t lanes = hn::Lanes(Floats());
  const W *s0 = rows.row[0], *d0 = rows.row[1], *s1 = rows.row[2], *d1 = rows.row[3];
  FloatVector a0 = hn::Zero(Floats()), a1 = a0, b0 = a0, b1 = a0;
  std::size_t x = 0;
  for (; x + kChunk <= width; x += kChunk) {
    prefetch_chunk(rows, x);
    for (std::size_t at = x; at < x + kChunk; at += 2 * lanes) {
      const FloatVector h = load(hidden + at), g = load(hidden + at + lanes);
      a0 = hn::MulAdd(h, hn::Sub(load(d0 + at), load(s0 + at)), a0);
      a1 = hn::MulAdd(h, hn::Sub(load(d1 + at), load(s1 + at)), a1);
      b0 = hn::MulAdd(g, hn::Sub(load(d0 + at + lanes), load(s0 + at + lanes)), b0);
      b1 = hn::MulAdd(g, hn::Sub(load(d1 + at + lanes), load(s1 + at + lanes)), b1);
    }
  }
  for (; x + lanes <= width; x += lanes) {
    const FloatVector h = load(hidden + x);
    a0 = hn::MulAdd(h, hn::Sub(load(d0 + x), load(s0 + x)), a0);
    a1 = hn::MulAdd(h, hn::Sub(load(d1 + x), load(s1 + x)), a1);
  }
  out[0] = sum_of(a0, b0);
  out[1] = sum_of(a1, b1);
  for (; x < width; ++x) {
    out[0] += widen(hidden[x]) * (widen(d0[x]) - widen(s0[x]));
    out[1] += widen(hidden[x]) * (widen(d1[x]) - widen(s1[x]));
  }
}

enum class Write { kAdd, kStore, kStream };  // kStream: a store past the cache, to an aligned row

// out (+)= sum of coefficient[i] * rows.row[i], i < kRows, in that order.
template <int kRows, Write kWrite, class T>
HWY_INLINE void add_rows(const FourRows<T>& rows, const float* coefficient, std::size_t width, float* out) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const T *r0 = rows.row[0], *r1 = rows.row[1], *r2 = rows.row[2], *r3 = rows.row[3];
  const FloatVector c0 = hn::Set(d, coefficient[0]), c1 = hn::Set(d, coefficient[1]);
  const FloatVector c2 = hn::Set(d, coefficient[2]), c3 = hn::Set(d, coefficient[3]);
  std::size_t x = 0;
  while (x + lanes <= width) {
    const std::size_t end = std::min(x + kChunk, width);
    if (end == x + kChunk) {
      for (int i = 0; i < kRows; ++i) prefetch_chunk(rows.next[i], x);
    }
    for (; x + lanes <= end; x += lanes) {
      FloatVector sum =
          kWrite == Write::kAdd ? hn::MulAdd(c0, load(r0 + x), load(out + x)) : hn::Mul(c0, load(r0 + x));
      if constexpr (kRows > 1) sum = hn::MulAdd(c1, load(r1 + x), sum);
      if constexpr (kRows > 2) sum = hn::MulAdd(c2, load(r2 + x), sum);
      if constexpr (kRows > 3) sum = hn::MulAdd(c3, load(r3 + x), sum);
      if constexpr (kWrite == Write::kStream) {
        hn::Stream(sum, d, out + x);
      } else {
        hn::StoreU(sum, d, out + x);
      }
    }
  }
  for (; x < width; ++x) {
    float sum = kWrite == Write::kAdd ? out[x] : 0.0F;
    for (int i = 0; i < kRows; ++i) sum += coefficient[i] * widen(rows.row[i][x]);
    out[x] = sum;
  }
}

template <Write kWrite, class T>
HWY_INLINE void add_up_to_four(int count, const FourRows<T>& rows, const float* coefficient,
                               std::size_t width, float* out) {
  switch (count) {
    case 1:
      return add_rows<1, kWrite>(rows, coefficient, width, out);
    case 2:
      return add_rows<2, kWrite>(rows, coefficient, width, out);
    case 3:
      return add_rows<3, kWrite>(rows, coefficient, width, out);
    default:
      return add_rows<4, kWrite>(rows, coefficient, width, out);
  }
}

HWY_INLINE bool can_stream(const float* out) {
  return reinterpret_cast<std::uintptr_t>(out) % (hn::Lanes(Floats()) * sizeof(float)) == 0;
}

// Row `ids[at]`, or the last one of the list when `at` lies past its end.
template <class T>
HWY_INLINE const T* listed_row(const RowMatrix& matrix, const std::int32_t* ids, std::int64_t at,
                               std::int64_t count) {
  return row_at<T>(matrix, ids[std::min(at, count - 1)]);
}

template <class H, class W>
void row_dots_of(const RowMatrix& hidden, std::int64_t token, const RowMatrix& weight,
                 const std::int32_t* ids, std::int64_t count, std::int64_t ahead, float* logits) {
  for (std::int64_t first = 0; first < count; first += 4) {
    FourRows<W> rows;
    for (std::int64_t i = 0; i < 4; ++i) {
      rows.row[i] = listed_row<W>(weight, ids, first + i, count);
      rows.next[i] = listed_row<W>(weight, ids, first + i + kRowsAhead, count + ahead);
    }
    float out[4];
    dot_four_rows(row_at<H>(hidden, token), rows, static_cast<std::size_t>(weight.width), out);
    std::copy_n(out, std::min<std::int64_t>(4, count - first), logits + first);
  }
}

template <class H, class W>
void pair_dots_of(const RowMatrix& hidden, std::int64_t token, const RowMatrix& weight,
                  const std::int32_t* source, const std::int32_t* destination, std::int64_t count,
                  std::int64_t ahead, float* log_odds) {
  FourRows<W> rows;
  std::int64_t index[2];
  int filled = 0;
  const auto flush = [&]() HWY_ATTR {
    float out[2];
    dot_two_pairs(row_at<H>(hidden, token), rows, static_cast<std::size_t>(weight.width), out);
    for (int i = 0; i < filled; ++i) log_odds[index[i]] = out[i];
    filled = 0;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    if (source[i] < 0) {
      log_odds[i] = 0.0F;
      continue;
    }
    const std::int64_t later = std::min(i + kPairsAhead, count + ahead - 1);
    const bool fetch = source[later] >= 0;
    rows.row[2 * filled] = row_at<W>(weight, source[i]);
    rows.row[2 * filled + 1] = row_at<W>(weight, destination[i]);
    rows.next[2 * filled] = row_at<W>(weight, source[fetch ? later : i]);
    rows.next[2 * filled + 1] = row_at<W>(weight, destination[fetch ? later : i]);
    index[filled++] = i;
    if (filled == 2) flush();
  }
  if (filled == 1) {  // the same pair twice: no second kernel for an odd one
    std::copy_n(rows.row, 2, rows.row + 2);
    std::copy_n(rows.next, 2, rows.next + 2);
    flush();
  }
}

template <class W>
void sum_weight_rows_of(const RowMatrix& weight, const RowVisit* visits, std::int64_t count, float* sum) {
  const std::size_t width = static_cast<std::size_t>(weight.width);
  const bool stream = count <= 4 && can_stream(sum);
  bool written = false;
  for (std::int64_t at = 0; at < count;) {
    FourRows<W> rows;
    float coefficient[4] = {};
    int filled = 0;
    for (; at < count && filled < 4; ++at) {
      if (visits[at].row < 0) continue;
      rows.row[filled] = rows.next[filled] = row_at<W>(weight, visits[at].row);
      coefficient[filled++] = visits[at].coefficient;
    }
    if (filled == 0) break;
    if (written) {
      add_up_to_four<Write::kAdd>(filled, rows, coefficient, width, sum);
    } else if (stream) {
      add_up_to_four<Write::kStream>(filled, rows, coefficient, width, sum);
    } else {
      add_up_to_four<Write::kStore>(filled, rows, coefficient, width, sum);
    }
    written = true;
  }
  if (!written) std::fill_n(sum, width, 0.0F);
}

template <class H>
void add_hidden_rows_of(const RowMatrix& hidden, const RowVisit* visits, std::int64_t count,
                        std::int64_t ahead, bool overwrite, bool read_soon, float* grad_row) {
  const std::size_t width = static_cast<std::size_t>(hidden.width);
  const bool stream = count <= 4 && !read_soon && can_stream(grad_row);
  for (std::int64_t first = 0; first < count; first += 4) {
    const int filled = static_cast<int>(std::min<std::int64_t>(4, count - first));
    FourRows<H> rows;
    float coefficient[4] = {};
    for (int i = 0; i < filled; ++i) {
      rows.row[i] = row_at<H>(hidden, visits[first + i].token);
      rows.next[i] = row_at<H>(hidden, visits[std::min(first + i + kVisitsAhead, count + ahead - 1)].token);
      coefficient[i] = visits[first + i].coefficient;
    }
    if (!overwrite || first > 0) {
      add_up_to_four<Write::kAdd>(filled, rows, coefficient, width, grad_row);
    } else if (stream) {
      add_up_to_four<Write::kStream>(filled, rows, coefficient, width, grad_row);
    } else {
      add_up_to_four<Write::kStore>(filled, rows, coefficient, width, grad_row);
    }
  }
}

void ZeroRow(float* row, std::int64_t count) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d), width = static_cast<std::size_t>(count);
  std::size_t x = 0;
  if (can_stream(row)) {
    for (; x + lanes <= width; x += lanes) hn::Stream(hn::Zero(d), d, row + x);
  }
  std::fill(row + x, row + width, 0.0F);
}

// What is exported, for one target: the choice of the row types.
void RowDots(const RowMatrix& hidden, std::int64_t token, const RowMatrix& weight, const std::int32_t* ids,
             std::int64_t count, std::int64_t ahead, float* logits) {
  with_element(hidden.type, [&]<class H>(H) {
    with_element(weight.type,
                 [&]<class W>(W) { row_dots_of<H, W>(hidden, token, weight, ids, count, ahead, logits); });
  });
}

void PairDots(const RowMatrix& hidden, std::int64_t token, const RowMatrix& weight,
              const std::int32_t* source, const std::int32_t* destination, std::int64_t count,
              std::int64_t ahead, float* log_odds) {
  with_element(hidden.type, [&]<class H>(H) {
    with_element(weight.type, [&]<class W>(W) {
      pair_dots_of<H, W>(hidden, token, weight, source, destination, count, ahead, log_odds);
    });
  });
}

void SumWeightRows(const RowMatrix& weight, const RowVisit* visits, std::int64_t count, float* sum) {
  with_element(weight.type, [&]<class W>(W) { sum_weight_rows_of<W>(weight, visits, count, sum); });
}

void AddHiddenRows(const RowMatrix& hidden, const RowVisit* visits, std::int64_t count, std::int64_t ahead,
                   bool overwrite, bool read_soon, float* grad_row) {
  with_element(hidden.type, [&]<class H>(H) {
    add_hidden_rows_of<H>(hidden, visits, count, ahead, overwrite, read_soon, grad_row);
  });
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <hwy/cache_control.h>

namespace routeopd::kernels {

HWY_EXPORT(RowDots);
HWY_EXPORT(PairDots);
HWY_EXPORT(SumWeightRows);
HWY_EXPORT(AddHiddenRows);
HWY_EXPORT(ZeroRow);

void row_dots(const RowMatrix& hidden, std::int64_t token, const RowMatrix& weight, const std::int32_t* ids,
              std::int64_t count, std::int64_t ahead, float* logits) {
  HWY_DYNAMIC_DISPATCH(RowDots)(hidden, token, weight, ids, count, ahead, logits);
}

void pair_dots(const RowMatrix& hidden, std::int64_t token, const RowMatrix& weight,
               const std::int32_t* source, const std::int32_t* destination, std::int64_t count,
               std::int64_t ahead, float* log_odds) {
  HWY_DYNAMIC_DISPATCH(PairDots)(hidden, token, weight, source, destination, count, ahead, log_odds);
}

void sum_weight_rows(const RowMatrix& weight, const RowVisit* visits, std::int64_t count, float* sum) {
  HWY_DYNAMIC_DISPATCH(SumWeightRows)(weight, visits, count, sum);
}

void add_hidden_rows(const RowMatrix& hidden, const RowVisit* visits, std::int64_t count, std::int64_t ahead,
                     bool overwrite, float* grad_row) {
  HWY_DYNAMIC_DISPATCH(AddHiddenRows)(hidden, visits, count, ahead, overwrite, false, grad_row);
}

void round_hidden_rows(const RowMatrix& hidden, const RowVisit* visits, std::int64_t count,
                       std::int64_t ahead, RowType type, float* scratch, void* grad_row) {
  HWY_DYNAMIC_DISPATCH(AddHiddenRows)(hidden, visits, count, ahead, true, true, scratch);
  round_row(scratch, hidden.width, type, grad_row);
}

void zero_row(float* row, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(ZeroRow)(row, count);
}

void flush_row_writes() {
  hwy::FlushStream();
}

}  // namespace routeopd::kernels
#endif
