// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/normal_form.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace routeopd::grade::math {
namespace {

struct NoForm {};  // thrown inside this file only

constexpr const char* kPiName = "\\pi";
constexpr const char* kEulerName = "\\e";
constexpr const char* kImaginaryName = "\\i";

std::size_t bits_of(const mpq_class& value) {
  return std::max(mpz_sizeinbase(value.get_num_mpz_t(), 2), mpz_sizeinbase(value.get_den_mpz_t(), 2));
}

mpq_class bounded(mpq_class value) {
  if (bits_of(value) > kMostBits) throw NoForm();
  return value;
}

// base^exponent, exponent >= 0.
mpq_class power(const mpq_class& base, unsigned long exponent) {
  if (bits_of(base) * exponent > 2 * kMostBits) throw NoForm();
  mpz_class top;
  mpz_class bottom;
  mpz_pow_ui(top.get_mpz_t(), base.get_num_mpz_t(), exponent);
  mpz_pow_ui(bottom.get_mpz_t(), base.get_den_mpz_t(), exponent);
  return bounded(mpq_class(top, bottom));
}

bool is_prime_name(const std::string& name) {
  return name.front() >= '0' && name.front() <= '9';
}

// Multiplies atom^exponent into a monomial; whole powers of i and of primes go to the coefficient.
void multiply_in(Monomial& monomial, mpq_class& coefficient, const std::string& atom, Exponent exponent) {
  Exponent& sum = monomial[atom];
  const std::int64_t common = std::lcm<std::int64_t>(sum.denominator, exponent.denominator);
  std::int64_t top =
      sum.numerator * (common / sum.denominator) + exponent.numerator * (common / exponent.denominator);
  const std::int64_t shared = std::gcd(top, common);
  std::int64_t bottom = common / shared;
  top /= shared;
  if (bottom > kLargestExponent || std::abs(top) > kLargestExponent * bottom) throw NoForm();
  if (atom == kImaginaryName) {
    if (top % 4 >= 2) coefficient = -coefficient;
    top %= 2;
  } else if (is_prime_name(atom)) {
    const mpq_class prime{atom};
    for (; top >= bottom; top -= bottom) coefficient *= prime;
  }
  if (top == 0) {
    monomial.erase(atom);
  } else {
    sum = {static_cast<int>(top), static_cast<int>(bottom)};
  }
}

Polynomial product(const Polynomial& left, const Polynomial& right, Budget& budget) {
  Polynomial result;
  for (const auto& [left_monomial, left_coefficient] : left.terms()) {
    for (const auto& [right_monomial, right_coefficient] : right.terms()) {
      if (!budget.spend(2)) throw NoForm();
      Monomial monomial = left_monomial;
      mpq_class coefficient = bounded(left_coefficient * right_coefficient);
      for (const auto& [atom, exponent] : right_monomial) multiply_in(monomial, coefficient, atom, exponent);
      result.add(monomial, coefficient);
    }
  }
  if (result.terms().size() > kMostTerms) throw NoForm();
  return result;
}

Polynomial sum(const Polynomial& left, const Polynomial& right, int sign, Budget& budget) {
  Polynomial result = left;
  for (const auto& [monomial, coefficient] : right.terms()) {
    if (!budget.spend()) throw NoForm();
    result.add(monomial, sign < 0 ? mpq_class(-coefficient) : coefficient);
  }
  if (result.terms().size() > kMostTerms) throw NoForm();
  return result;
}

Quotient product(const Quotient& left, const Quotient& right, Budget& budget) {
  return {product(left.numerator, right.numerator, budget),
          product(left.denominator, right.denominator, budget)};
}

Quotient inverse(Quotient value) {
  if (value.numerator.is_zero()) throw NoForm();
  std::swap(value.numerator, value.denominator);
  return value;
}

Quotient sum(const Quotient& left, const Quotient& right, Budget& budget) {
  if (left.denominator.terms() == right.denominator.terms()) {
    return {sum(left.numerator, right.numerator, 1, budget), left.denominator};
  }
  return {sum(product(left.numerator, right.denominator, budget),
              product(right.numerator, left.denominator, budget), 1, budget),
          product(left.denominator, right.denominator, budget)};
}

std::optional<mpq_class> constant_of(const Quotient& value) {
  const auto top = value.numerator.constant();
  const auto bottom = value.denominator.constant();
  if (!top || !bottom) return std::nullopt;
  return mpq_class(*top / *bottom);
}

Quotient quotient_of(const mpq_class& value) {
  return {Polynomial(bounded(value)), Polynomial(mpq_class(1))};
}

Quotient atom(const std::string& name) {
  Quotient value{Polynomial(), Polynomial(mpq_class(1))};
  value.numerator.add(Monomial{{name, Exponent{1, 1}}}, 1);
  return value;
}

// n^(index of `exponent`) for a whole n > 0, by its prime factors. Trial division goes to 2^16, so that a
// remainder below 2^32 is prime; a larger one has no normal form.
void multiply_root(Polynomial& value, const mpz_class& n, Exponent exponent, Budget& budget) {
  if (mpz_sizeinbase(n.get_mpz_t(), 2) > 62) throw NoForm();
  std::uint64_t rest = n.get_ui();
  mpq_class coefficient = 1;
  Monomial monomial;
  const auto take = [&](std::uint64_t prime, int times) {
    if (times * exponent.numerator > kLargestExponent) throw NoForm();
    const int shared = std::gcd(times * exponent.numerator, exponent.denominator);
    multiply_in(monomial, coefficient, std::to_string(prime),
                {times * exponent.numerator / shared, exponent.denominator / shared});
  };
  for (std::uint64_t prime = 2; prime < (1U << 16) && prime * prime <= rest; prime += prime == 2 ? 1 : 2) {
    if (prime % 64 == 1 && !budget.spend()) throw NoForm();
    int times = 0;
    for (; rest % prime == 0; rest /= prime) ++times;
    if (times > 0) take(prime, times);
  }
  if (rest >= (std::uint64_t{1} << 32)) throw NoForm();
  if (rest > 1) take(rest, 1);
  Polynomial factor;
  factor.add(monomial, coefficient);
  value = product(value, factor, budget);
}

// value^(1/index), the real root where there is one.
Quotient root(const mpq_class& value, int index, Budget& budget) {
  if (index < 2 || index > 64) throw NoForm();
  if (value == 0) return quotient_of(0);
  Quotient result = quotient_of(1);
  multiply_root(result.numerator, abs(value.get_num()), {1, index}, budget);
  multiply_root(result.denominator, value.get_den(), {1, index}, budget);
  if (value > 0) return result;
  if (index % 2 == 1) return product(result, quotient_of(-1), budget);
  if (index != 2) throw NoForm();
  return product(result, atom(kImaginaryName), budget);
}

Quotient whole_power(const Quotient& base, long exponent, Budget& budget) {
  if (exponent > static_cast<long>(kMostBits) || exponent < -static_cast<long>(kMostBits)) throw NoForm();
  if (const auto constant = constant_of(base)) {
    if (*constant == 0 && exponent <= 0) throw NoForm();
    const mpq_class raised = power(*constant, static_cast<unsigned long>(std::labs(exponent)));
    return quotient_of(exponent < 0 ? mpq_class(1 / raised) : raised);
  }
  if (std::labs(exponent) > kLargestExponent) throw NoForm();
  Quotient square = exponent < 0 ? inverse(base) : base;
  Quotient result = quotient_of(1);
  for (auto left = static_cast<unsigned long>(std::labs(exponent)); left > 0; left >>= 1U) {
    if ((left & 1U) != 0) result = product(result, square, budget);
    if (left > 1) square = product(square, square, budget);
  }
  return result;
}

class Former {
 public:
  explicit Former(Budget& budget) : budget_(budget) {}

  Quotient form(const Node& node) {
    if (!budget_.spend()) throw NoForm();
    switch (node.kind) {
      case Kind::kNumber:
        return quotient_of(node.value);
      case Kind::kSymbol:
        return atom(node.name);
      case Kind::kPi:
        return atom(kPiName);
      case Kind::kEuler:
        return atom(kEulerName);
      case Kind::kImaginary:
        return atom(kImaginaryName);
      case Kind::kPercent:
        return product(form(node.parts[0]), quotient_of({1, 100}), budget_);
      case Kind::kSum: {
        Quotient total = quotient_of(0);
        for (const Node& part : node.parts) total = sum(total, form(part), budget_);
        return total;
      }
      case Kind::kProduct: {
        Quotient total = quotient_of(1);
        for (const Node& part : node.parts) total = product(total, form(part), budget_);
        return total;
      }
      case Kind::kPower:
        return power_form(node);
      case Kind::kRoot: {
        const mpq_class index = constant(node.parts[1]);
        if (index.get_den() != 1 || index > 64 || index < 2) throw NoForm();
        return root(constant(node.parts[0]), static_cast<int>(index.get_num().get_si()), budget_);
      }
      case Kind::kCall:
        return quotient_of(call(node));
      default:
        throw NoForm();
    }
  }

 private:
  mpq_class constant(const Node& node) {
    const auto value = constant_of(form(node));
    if (!value) throw NoForm();
    return *value;
  }

  Quotient power_form(const Node& node) {
    const mpq_class exponent = constant(node.parts[1]);
    if (!exponent.get_num().fits_slong_p() || !exponent.get_den().fits_sint_p()) throw NoForm();
    const Quotient base = form(node.parts[0]);
    if (exponent.get_den() == 1) return whole_power(base, exponent.get_num().get_si(), budget_);
    const auto value = constant_of(base);
    if (!value || *value <= 0) throw NoForm();
    if (exponent.get_den() > 64) throw NoForm();
    const Quotient rooted = root(*value, static_cast<int>(exponent.get_den().get_si()), budget_);
    return whole_power(rooted, exponent.get_num().get_si(), budget_);
  }

  // Functions whose value at a rational is rational.
  mpq_class call(const Node& node) {
    const mpq_class first = constant(node.parts[0]);
    if (node.name == "abs") return abs(first);
    if (node.name == "floor" || node.name == "ceil") {
      mpz_class whole;
      const auto divide = node.name == "floor" ? mpz_fdiv_q : mpz_cdiv_q;
      divide(whole.get_mpz_t(), first.get_num_mpz_t(), first.get_den_mpz_t());
      return whole;
    }
    const auto counted = [](const mpq_class& value) {
      if (value.get_den() != 1 || value < 0 || value > kLargestFactorial) throw NoForm();
      return value.get_num().get_ui();
    };
    mpz_class result;
    if (node.name == "factorial") {
      mpz_fac_ui(result.get_mpz_t(), counted(first));
      return result;
    }
    if (node.name == "binom" && node.parts.size() == 2) {
      const unsigned long n = counted(first);
      const unsigned long k = counted(constant(node.parts[1]));
      if (k > n) return 0;
      mpz_bin_uiui(result.get_mpz_t(), n, k);
      return result;
    }
    if (node.name == "max" || node.name == "min" || node.name == "gcd" || node.name == "lcm") {
      return folded(node, first);
    }
    throw NoForm();
  }

  mpq_class folded(const Node& node, mpq_class result) {
    for (std::size_t i = 1; i < node.parts.size(); ++i) {
      const mpq_class next = constant(node.parts[i]);
      if (node.name == "max" || node.name == "min") {
        if ((node.name == "max") == (next > result)) result = next;
        continue;
      }
      if (result.get_den() != 1 || next.get_den() != 1) throw NoForm();
      mpz_class whole;
      const auto fold = node.name == "gcd" ? mpz_gcd : mpz_lcm;
      fold(whole.get_mpz_t(), result.get_num_mpz_t(), next.get_num_mpz_t());
      result = whole;
      result = bounded(result);
    }
    return result;
  }

  Budget& budget_;
};

// What `work` makes of at most kExactSteps of the budget.
template <class Work>
auto within(Budget& budget, const Work& work) -> std::optional<decltype(work(budget))> {
  Budget part(std::min(kExactSteps, budget.left()));
  const std::int64_t given = part.left();
  std::optional<decltype(work(budget))> result;
  try {
    result = work(part);
  } catch (const NoForm&) {
  }
  budget.spend(given - part.left());
  return result;
}

}  // namespace

void Polynomial::add(const Monomial& monomial, const mpq_class& coefficient) {
  mpq_class& sum = terms_[monomial];
  sum = bounded(sum + coefficient);
  if (sum == 0) terms_.erase(monomial);
}

std::optional<mpq_class> Polynomial::constant() const {
  if (terms_.empty()) return mpq_class(0);
  if (terms_.size() > 1 || !terms_.begin()->first.empty()) return std::nullopt;
  return terms_.begin()->second;
}

std::optional<Quotient> normal_form(const Node& node, Budget& budget) {
  return within(budget, [&](Budget& part) { return Former(part).form(node); });
}

std::optional<bool> same_quotient(const Quotient& left, const Quotient& right, Budget& budget) {
  return within(budget, [&](Budget& part) {
    return sum(product(left.numerator, right.denominator, part),
               product(right.numerator, left.denominator, part), -1, part)
        .is_zero();
  });
}

std::optional<mpq_class> ratio(const Polynomial& left, const Polynomial& right) {
  if (left.terms().size() != right.terms().size() || left.is_zero()) return std::nullopt;
  std::optional<mpq_class> quotient;
  for (auto l = left.terms().begin(), r = right.terms().begin(); l != left.terms().end(); ++l, ++r) {
    if (l->first != r->first) return std::nullopt;
    const mpq_class here = l->second / r->second;
    if (quotient && *quotient != here) return std::nullopt;
    quotient = here;
  }
  return quotient;
}

std::optional<mpq_class> rational_value(const Node& node, Budget& budget) {
  const auto form = normal_form(node, budget);
  return form ? constant_of(*form) : std::nullopt;
}

}  // namespace routeopd::grade::math
