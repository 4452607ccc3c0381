// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/scalar.h"

#include <algorithm>
#include <optional>

#include "routeopd/grade/math/normal_form.h"
#include "routeopd/grade/math/number_scan.h"
#include "routeopd/grade/math/numeric_value.h"

namespace routeopd::grade::math {
namespace {

constexpr int kFewestPlaces = 6;

bool is_decimal(const Node& node) {
  return node.kind == Kind::kNumber && node.places >= 0;
}

bool is_rounding(const Node& decimal, const Node& exact, Budget& budget) {
  const int places = decimal.places;
  if (places < kFewestPlaces || contains(exact, Kind::kSymbol)) return false;
  const mpq_class unit(1, ten_to(static_cast<std::size_t>(places)));
  if (abs(decimal.value) < unit * ten_to(kFewestPlaces - 1)) return false;
  // A double's own rounding, where more digits are written than it has.
  const mpq_class finest = abs(decimal.value) / (mpz_class(1) << 52);
  if (const auto rational = rational_value(exact, budget)) {
    if (rational->get_den() == 1) return false;  // a whole number has nothing to round
    return abs(*rational - decimal.value) < std::max(unit, finest);
  }
  const Value value = value_at(exact, 0, budget);
  if (!value.number.is_tame() || !value.number.is_real()) return false;
  Real difference = value.number.re - Real(decimal.value);
  if (difference.sign() < 0) difference = -difference;
  return mpfr_cmp_q(difference.get(), std::max(unit, finest).get_mpq_t()) < 0;
}

bool is_noise(const Real& part, long peak) {
  return part.is_zero() || part.exponent() < peak - (working_precision() - kSlack);
}

bool same_values(const Node& reference, const Node& given, Budget& budget) {
  const bool variables = contains(reference, Kind::kSymbol) || contains(given, Kind::kSymbol);
  const bool complex = contains(reference, Kind::kImaginary) || contains(given, Kind::kImaginary);
  unsigned agreed = 0;
  unsigned last = 0;  // point at which they did
  for (unsigned point = 0; point < (variables ? kPoints : 1); ++point) {
    const Value wanted = value_at(reference, point, budget);
    if (!wanted.number.is_tame()) continue;
    if (variables && !complex && !is_noise(wanted.number.im, wanted.peak)) continue;
    if (!agree(wanted, value_at(given, point, budget))) return false;
    ++agreed;
    last = point;
  }
  if (agreed < (variables ? 2U : 1U)) return false;
  const PrecisionScope finer(kSecondPrecision);
  return agree(value_at(reference, last, budget), value_at(given, last, budget));
}

}  // namespace

bool same_scalar(const Node& reference, const Node& given, Budget& budget) {
  const int infinity = infinite_sign(reference);
  if (infinity != 0 || infinite_sign(given) != 0) return infinity == infinite_sign(given);
  const auto left = normal_form(reference, budget);
  const auto right = left ? normal_form(given, budget) : std::nullopt;
  const auto same = left && right ? same_quotient(*left, *right, budget) : std::nullopt;
  if (same && *same) return true;
  const bool decimals = is_decimal(reference) || is_decimal(given);
  if (decimals) {
    const bool shorter_given =
        is_decimal(given) && (!is_decimal(reference) || given.places < reference.places);
    return shorter_given ? is_rounding(given, reference, budget) : is_rounding(reference, given, budget);
  }
  return !same && same_values(reference, given, budget);
}

int factor_sign(const Node& reference, const Node& given, Budget& budget) {
  const auto left = normal_form(reference, budget);
  const auto right = left ? normal_form(given, budget) : std::nullopt;
  if (left && right) {
    const auto top = ratio(left->numerator, right->numerator);
    const auto bottom = ratio(left->denominator, right->denominator);
    if (top && bottom) return sgn(*top) * sgn(*bottom);
  }
  // The factor may be no rational, as in √2·x = 2 against x = √2.
  std::optional<Value> factor;
  for (unsigned point = 0; point < kPoints; ++point) {
    const Value wanted = value_at(reference, point, budget);
    const Value found = value_at(given, point, budget);
    if (is_noise(wanted.number.re, wanted.peak) || is_noise(found.number.re, found.peak)) return 0;
    const Value here{wanted.number / found.number, std::max(wanted.peak, found.peak)};
    if (!here.number.is_tame() || (factor && !agree(*factor, here))) return 0;
    factor = here;
  }
  return factor && is_noise(factor->number.im, factor->peak) ? factor->number.re.sign() : 0;
}

}  // namespace routeopd::grade::math
