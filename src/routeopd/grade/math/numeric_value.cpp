// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/numeric_value.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "routeopd/base/hashes.h"
#include "routeopd/base/philox.h"
#include "routeopd/grade/math/normal_form.h"

namespace routeopd::grade::math {
namespace {

// A difference that is this many bits below the peak is rounding.
long agreement() {
  return working_precision() - kSlack;
}

Complex complex_of(const mpq_class& value) {
  return {Real(value), Real()};
}

// philox4x32 with the counter { crc32c of the name, point, 0, 0 } and the key 0.
Complex variable(const std::string& name, unsigned point) {
  const PhiloxBlock words = philox4x32({crc32c(name), point, 0, 0}, 0, 0);
  mpq_class size((1UL << 22U) + static_cast<unsigned long>(words[0] >> 8U), 1UL << 23U);
  size.canonicalize();
  const bool negative = point >= kPositivePoints && (words[1] & 1U) != 0;
  return complex_of(negative ? mpq_class(-size) : size);
}

class Evaluator {
 public:
  Evaluator(unsigned point, Budget& budget) : point_(point), budget_(budget) {}

  Complex value(const Node& node) {
    const bool costly = node.kind == Kind::kCall || node.kind == Kind::kPower || node.kind == Kind::kRoot;
    if (!budget_.spend((costly ? 10 : 1) * (working_precision() / kPrecision))) return not_a_number();
    Complex result = plain_value(node);
    peak_ = std::max(peak_, result.exponent());
    return result;
  }

  long peak() const { return peak_; }

 private:
  Complex plain_value(const Node& node) {
    switch (node.kind) {
      case Kind::kNumber:
        return complex_of(node.value);
      case Kind::kSymbol:
        return variable(node.name, point_);
      case Kind::kPi:
        return pi();
      case Kind::kEuler:
        return applied("exp", complex_of(1));
      case Kind::kImaginary:
        return {Real(), Real(1)};
      case Kind::kPercent:
        return value(node.parts[0]) / complex_of(100);
      case Kind::kSum: {
        Complex total = complex_of(0);
        for (const Node& part : node.parts) total = total + value(part);
        return total;
      }
      case Kind::kProduct: {
        Complex total = complex_of(1);
        for (const Node& part : node.parts) total = total * value(part);
        return total;
      }
      case Kind::kPower: {
        if (node.parts[0].kind == Kind::kEuler) return applied("exp", value(node.parts[1]));
        const long before = std::exchange(peak_, -kMostExponent);
        const Complex base = value(node.parts[0]);
        // What is zero but for the rounding of its own parts has no reciprocal.
        const bool vanishes = base.exponent() < peak_ - agreement();
        peak_ = std::max(peak_, before);
        const Complex exponent = value(node.parts[1]);
        return power(vanishes && exponent.re.sign() < 0 ? complex_of(0) : base, exponent);
      }
      case Kind::kRoot: {
        const Complex radicand = value(node.parts[0]);
        return root(radicand, value(node.parts[1]));
      }
      case Kind::kCall:
        return call(node);
      default:
        return not_a_number();
    }
  }

  Complex call(const Node& node) {
    if (node.parts.size() == 2 && node.name == "log") {
      const Complex argument = value(node.parts[0]);
      return logarithm(argument) / logarithm(value(node.parts[1]));
    }
    if (node.parts.size() == 1) {
      if (const Complex result = applied(node.name, value(node.parts[0])); result.is_tame()) return result;
    }
    // Factorials, binomials and the like of numbers.
    if (const auto exact = rational_value(node, budget_)) return complex_of(*exact);
    return not_a_number();
  }

  unsigned point_;
  Budget& budget_;
  long peak_ = -kMostExponent;
};

}  // namespace

Value value_at(const Node& node, unsigned point, Budget& budget) {
  Evaluator evaluator(point, budget);
  Value result;
  result.number = evaluator.value(node);
  result.peak = evaluator.peak();
  return result;
}

bool agree(const Value& left, const Value& right) {
  const Complex difference = left.number - right.number;
  if (!difference.is_tame()) return false;
  return difference.exponent() < std::max(left.peak, right.peak) - agreement();
}

}  // namespace routeopd::grade::math
