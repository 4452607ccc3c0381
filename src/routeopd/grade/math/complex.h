// Complex numbers over MPFR, with the functions that answers use. Rounding is to nearest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmpxx.h>
#include <mpfr.h>

#include <string_view>

namespace routeopd::grade::math {

// Bits of the numbers that are made while one of these lives; kPrecision where none does.
class PrecisionScope {
 public:
  explicit PrecisionScope(int bits);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  int before_;
};
int working_precision();

class Real {
 public:
  Real();  // zero
  explicit Real(long value);
  explicit Real(const mpq_class& value);
  Real(const Real& other);
  Real& operator=(const Real& other);
  ~Real() { mpfr_clear(value_); }

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }
  bool is_zero() const { return mpfr_zero_p(value_) != 0; }
  int sign() const { return mpfr_sgn(value_); }
  // e with 2^(e-1) <= |x| < 2^e; a very small number for zero.
  long exponent() const;
  // Neither infinite nor NaN, and its exponent within kMostExponent.
  bool is_tame() const;

 private:
  mpfr_t value_;
};

Real operator+(const Real& left, const Real& right);
Real operator-(const Real& left, const Real& right);
Real operator*(const Real& left, const Real& right);
Real operator/(const Real& left, const Real& right);
Real operator-(const Real& value);

struct Complex {
  Real re;
  Real im;

  bool is_real() const { return im.is_zero(); }
  bool is_tame() const { return re.is_tame() && im.is_tame(); }
  long exponent() const;
};

// What has no value, or none that is tame, is NaN in both parts; NaN goes through everything.
Complex not_a_number();
Complex pi();

Complex operator+(const Complex& left, const Complex& right);
Complex operator-(const Complex& left, const Complex& right);
Complex operator*(const Complex& left, const Complex& right);
Complex operator/(const Complex& left, const Complex& right);

// Principal values. root() is the real one of a negative number where the index is odd.
Complex power(const Complex& base, const Complex& exponent);
Complex root(const Complex& radicand, const Complex& index);
Complex logarithm(const Complex& value);
// "sin", "arctan", "abs", "floor", …; those of parser.h with one argument.
Complex applied(std::string_view function, const Complex& argument);

}  // namespace routeopd::grade::math
