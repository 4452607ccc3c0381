// Exact equality of expressions made of rationals, roots of
// rationals, π, e, i and variables by + - · / and whole powers.
//
// Such an expression is a quotient of two polynomials with rational coefficients in
//   the variables, π and e            (taken to be independent of each other),
//   i                                 with i² = -1,
//   p^(a/b), p prime, 0 < a/b < 1     with p^(a/b) · p^(c/d) = p^(a/b + c/d), whole powers being numbers.
// The products of the p^(a/b) are linearly independent over the rationals (Besicovitch 1940), so a polynomial
// is zero if and only if it has no terms, and N1/D1 = N2/D2 if and only if N1·D2 - N2·D1 has none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmpxx.h>

#include <map>
#include <optional>
#include <string>

#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/node.h"

namespace routeopd::grade::math {

struct Exponent {
  int numerator = 0;
  int denominator = 1;
  auto operator<=>(const Exponent&) const = default;
};

// By name: "x", "x_1", "\\pi", "\\e", "\\i"; a prime by its digits.
using Monomial = std::map<std::string, Exponent>;

class Polynomial {
 public:
  Polynomial() = default;  // zero
  explicit Polynomial(const mpq_class& constant) { add(Monomial{}, constant); }

  void add(const Monomial& monomial, const mpq_class& coefficient);
  const std::map<Monomial, mpq_class>& terms() const { return terms_; }
  bool is_zero() const { return terms_.empty(); }
  // The value of a polynomial without variables, roots and the like.
  std::optional<mpq_class> constant() const;

 private:
  std::map<Monomial, mpq_class> terms_;
};

struct Quotient {
  Polynomial numerator;
  Polynomial denominator;  // never zero
};

// Nothing when the expression is of another kind (a sine, a
// root of a variable), divides by zero, or outgrows the bounds.
std::optional<Quotient> normal_form(const Node& node, Budget& budget);

// Nothing when that outgrows the bounds.
std::optional<bool> same_quotient(const Quotient& left, const Quotient& right, Budget& budget);

// The c with left = c · right, if there is one and it is a rational other than zero.
std::optional<mpq_class> ratio(const Polynomial& left, const Polynomial& right);

// The value of an expression that is a rational number.
std::optional<mpq_class> rational_value(const Node& node, Budget& budget);

}  // namespace routeopd::grade::math
