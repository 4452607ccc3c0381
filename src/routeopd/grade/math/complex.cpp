// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/complex.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "routeopd/grade/math/budget.h"

namespace routeopd::grade::math {
namespace {

thread_local int precision_bits = kPrecision;

using Unary = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

// The exponent up to which an argument of exp, sin and the like is taken: sin(2^1000) needs 1000 more bits of
// π, and exp(2^15) already leaves kMostExponent.
constexpr long kMostArgument = 1000;

Real unary(Unary function, const Real& argument) {
  Real result;
  function(result.get(), argument.get(), MPFR_RNDN);
  return result;
}

Complex checked(Complex value) {
  return value.is_tame() ? value : not_a_number();
}

Complex real(Real value) {
  return checked({std::move(value), Real()});
}

Complex exponential(const Complex& value) {
  if (value.re.exponent() > 16 || value.im.exponent() > kMostArgument) return not_a_number();
  const Real size = unary(mpfr_exp, value.re);
  if (value.is_real()) return real(size);
  return checked({size * unary(mpfr_cos, value.im), size * unary(mpfr_sin, value.im)});
}

Complex sine(const Complex& value, bool of_cosine) {
  if (value.re.exponent() > kMostArgument || value.im.exponent() > 16) return not_a_number();
  const Real s = unary(mpfr_sin, value.re);
  const Real c = unary(mpfr_cos, value.re);
  if (value.is_real()) return real(of_cosine ? c : s);
  const Real high = unary(mpfr_cosh, value.im);
  const Real low = unary(mpfr_sinh, value.im);
  return of_cosine ? checked({c * high, -(s * low)}) : checked({s * high, c * low});
}

// base^n by squaring.
Complex whole_power(Complex base, unsigned long n) {
  Complex result{Real(1), Real()};
  for (; n > 0; n >>= 1U) {
    if ((n & 1U) != 0) result = result * base;
    if (n > 1) base = base * base;
  }
  return result;
}

}  // namespace

PrecisionScope::PrecisionScope(int wanted) : before_(precision_bits) {
  precision_bits = wanted;
}
PrecisionScope::~PrecisionScope() {
  precision_bits = before_;
}
int working_precision() {
  return precision_bits;
}

Real::Real() {
  mpfr_init2(value_, precision_bits);
  mpfr_set_zero(value_, 1);
}
Real::Real(long value) {
  mpfr_init2(value_, precision_bits);
  mpfr_set_si(value_, value, MPFR_RNDN);
}
Real::Real(const mpq_class& value) {
  mpfr_init2(value_, precision_bits);
  mpfr_set_q(value_, value.get_mpq_t(), MPFR_RNDN);
}
Real::Real(const Real& other) {
  mpfr_init2(value_, precision_bits);
  mpfr_set(value_, other.value_, MPFR_RNDN);
}
Real& Real::operator=(const Real& other) {
  mpfr_set(value_, other.value_, MPFR_RNDN);
  return *this;
}
long Real::exponent() const {
  return mpfr_regular_p(value_) != 0 ? mpfr_get_exp(value_) : std::numeric_limits<int>::min();
}
bool Real::is_tame() const {
  if (is_zero()) return true;
  return mpfr_regular_p(value_) != 0 && exponent() <= kMostExponent && exponent() >= -kMostExponent;
}

Real operator+(const Real& left, const Real& right) {
  Real result;
  mpfr_add(result.get(), left.get(), right.get(), MPFR_RNDN);
  return result;
}
Real operator-(const Real& left, const Real& right) {
  Real result;
  mpfr_sub(result.get(), left.get(), right.get(), MPFR_RNDN);
  return result;
}
Real operator*(const Real& left, const Real& right) {
  Real result;
  mpfr_mul(result.get(), left.get(), right.get(), MPFR_RNDN);
  return result;
}
Real operator/(const Real& left, const Real& right) {
  Real result;
  mpfr_div(result.get(), left.get(), right.get(), MPFR_RNDN);
  return result;
}
Real operator-(const Real& value) {
  return unary(mpfr_neg, value);
}

long Complex::exponent() const {
  return std::max(re.exponent(), im.exponent());
}

Complex not_a_number() {
  Complex value;
  mpfr_set_nan(value.re.get());
  mpfr_set_nan(value.im.get());
  return value;
}

Complex pi() {
  Complex value;
  mpfr_const_pi(value.re.get(), MPFR_RNDN);
  return value;
}

Complex operator+(const Complex& left, const Complex& right) {
  return checked({left.re + right.re, left.im + right.im});
}
Complex operator-(const Complex& left, const Complex& right) {
  return checked({left.re - right.re, left.im - right.im});
}
Complex operator*(const Complex& left, const Complex& right) {
  if (left.is_real() && right.is_real()) return real(left.re * right.re);
  return checked({left.re * right.re - left.im * right.im, left.re * right.im + left.im * right.re});
}
Complex operator/(const Complex& left, const Complex& right) {
  if (left.is_real() && right.is_real()) return real(left.re / right.re);
  const Real size = right.re * right.re + right.im * right.im;
  return checked(
      {(left.re * right.re + left.im * right.im) / size, (left.im * right.re - left.re * right.im) / size});
}

Complex logarithm(const Complex& value) {
  if (!value.is_tame() || (value.re.is_zero() && value.im.is_zero())) return not_a_number();
  if (value.is_real() && value.re.sign() > 0) return real(unary(mpfr_log, value.re));
  Real size;
  Real angle;
  mpfr_hypot(size.get(), value.re.get(), value.im.get(), MPFR_RNDN);
  mpfr_atan2(angle.get(), value.im.get(), value.re.get(), MPFR_RNDN);
  return checked({unary(mpfr_log, size), angle});
}

Complex power(const Complex& base, const Complex& exponent) {
  if (!base.is_tame() || !exponent.is_tame()) return not_a_number();
  if (base.re.is_zero() && base.im.is_zero()) {
    return exponent.is_real() && exponent.re.sign() > 0 ? Complex() : not_a_number();
  }
  const bool whole =
      exponent.is_real() && mpfr_integer_p(exponent.re.get()) != 0 && exponent.re.exponent() <= 16;
  if (whole) {
    const long n = mpfr_get_si(exponent.re.get(), MPFR_RNDN);
    const Complex raised = whole_power(base, static_cast<unsigned long>(n < 0 ? -n : n));
    return n < 0 ? Complex{Real(1), Real()} / raised : raised;
  }
  return exponential(exponent * logarithm(base));
}

Complex root(const Complex& radicand, const Complex& index) {
  if (!radicand.is_tame() || !index.is_real() || mpfr_integer_p(index.re.get()) == 0 ||
      index.re.exponent() > 10) {
    return not_a_number();
  }
  const long n = mpfr_get_si(index.re.get(), MPFR_RNDN);
  if (n < 2) return not_a_number();
  const auto k = static_cast<unsigned long>(n);
  Complex result;
  if (radicand.is_real() && (radicand.re.sign() >= 0 || n % 2 == 1)) {
    mpfr_rootn_ui(result.re.get(), radicand.re.get(), k, MPFR_RNDN);
    return checked(result);
  }
  if (radicand.is_real() && n == 2) {
    mpfr_rootn_ui(result.im.get(), (-radicand.re).get(), 2, MPFR_RNDN);
    return checked(result);
  }
  return power(radicand, Complex{Real(1), Real()} / index);
}

Complex applied(std::string_view function, const Complex& argument) {
  if (!argument.is_tame()) return not_a_number();
  if (function == "exp") return exponential(argument);
  if (function == "ln") return logarithm(argument);
  if (function == "log" || function == "lg") return logarithm(argument) / logarithm({Real(10), Real()});
  if (function == "sin") return sine(argument, false);
  if (function == "cos") return sine(argument, true);
  if (function == "tan") return sine(argument, false) / sine(argument, true);
  if (function == "cot") return sine(argument, true) / sine(argument, false);
  if (function == "sec") return Complex{Real(1), Real()} / sine(argument, true);
  if (function == "csc") return Complex{Real(1), Real()} / sine(argument, false);
  if (function == "abs") {
    Complex size;
    mpfr_hypot(size.re.get(), argument.re.get(), argument.im.get(), MPFR_RNDN);
    return checked(size);
  }
  static constexpr std::array<std::pair<std::string_view, Unary>, 9> kReal = {{{"arcsin", mpfr_asin},
                                                                               {"arccos", mpfr_acos},
                                                                               {"arctan", mpfr_atan},
                                                                               {"sinh", mpfr_sinh},
                                                                               {"cosh", mpfr_cosh},
                                                                               {"tanh", mpfr_tanh},
                                                                               {"coth", mpfr_coth},
                                                                               {"floor", mpfr_rint_floor},
                                                                               {"ceil", mpfr_rint_ceil}}};
  if (!argument.is_real() || argument.re.exponent() > kMostArgument) return not_a_number();
  for (const auto& [name, unary_function] : kReal) {
    if (name == function) return real(unary(unary_function, argument.re));
  }
  if (function == "arccot" && !argument.re.is_zero()) return real(unary(mpfr_atan, Real(1) / argument.re));
  return not_a_number();
}

}  // namespace routeopd::grade::math
