// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/relations.h"

#include <algorithm>
#include <string>
#include <utility>

#include "routeopd/grade/math/equivalence.h"
#include "routeopd/grade/math/real_sets.h"
#include "routeopd/grade/math/scalar.h"

namespace routeopd::grade::math {
namespace {

bool is_name(const Node& node) {
  switch (node.kind) {
    case Kind::kSymbol:
    case Kind::kText:
    case Kind::kEuler:
    case Kind::kImaginary:
      return true;
    case Kind::kProduct:
    case Kind::kBracket:
    case Kind::kList:
      return std::all_of(node.parts.begin(), node.parts.end(), is_name);
    default:
      return false;
  }
}

Node difference(const Node& left, const Node& right) {
  std::vector<Node> parts;
  parts.push_back(left);
  parts.push_back(negated(right));
  return branch(Kind::kSum, std::move(parts));
}

bool less(char op) {
  return op == '<' || op == 'l';
}
bool greater(char op) {
  return op == '>' || op == 'g';
}
bool strict(char op) {
  return op == '<' || op == '>';
}

Node interval(const Node& low, char low_op, const Node& high, char high_op) {
  std::vector<Node> ends;
  ends.push_back(low);
  ends.push_back(high);
  return branch(Kind::kBracket, std::move(ends), {strict(low_op) ? '(' : '[', strict(high_op) ? ')' : ']'});
}

std::optional<Node> one_interval(const Node& node) {
  if (node.kind != Kind::kRelation) return std::nullopt;
  const std::string& ops = node.name;
  const auto& parts = node.parts;
  const bool ascends = std::all_of(ops.begin(), ops.end(), less);
  if (!ascends && !std::all_of(ops.begin(), ops.end(), greater)) return std::nullopt;
  const auto constant = [](const Node& part) { return !contains(part, Kind::kSymbol); };
  if (ops.size() == 2 && parts[1].kind == Kind::kSymbol && constant(parts[0]) && constant(parts[2])) {
    return ascends ? interval(parts[0], ops[0], parts[2], ops[1])
                   : interval(parts[2], ops[1], parts[0], ops[0]);
  }
  if (ops.size() != 1) return std::nullopt;
  const bool left = parts[0].kind == Kind::kSymbol && constant(parts[1]);
  const bool right = parts[1].kind == Kind::kSymbol && constant(parts[0]);
  if (!left && !right) return std::nullopt;
  const Node& end = left ? parts[1] : parts[0];
  if (left == ascends) return interval(negated(leaf(Kind::kInfinity)), '<', end, ops[0]);
  return interval(end, ops[0], leaf(Kind::kInfinity), '<');
}

const Node* variable_of(const Node& relation) {
  const auto symbol = std::find_if(relation.parts.begin(), relation.parts.end(),
                                   [](const Node& part) { return part.kind == Kind::kSymbol; });
  return symbol == relation.parts.end() ? nullptr : &*symbol;
}

// Inequalities that all point the same way.
bool is_chain(const Node& relation) {
  return std::all_of(relation.name.begin(), relation.name.end(), less) ||
         std::all_of(relation.name.begin(), relation.name.end(), greater);
}

bool same_equation(const Node& reference, const Node& given, Budget& budget) {
  const Node& left = reference.parts.front();
  const Node& right = reference.parts.back();
  const Node& given_left = given.parts.front();
  const Node& given_right = given.parts.back();
  if (is_assignment(reference) && is_assignment(given) && spelled(left) == spelled(given_left)) {
    return same_answer(right, given_right, budget);
  }
  return factor_sign(difference(left, right), difference(given_left, given_right), budget) != 0;
}

}  // namespace

bool is_equation(const Node& node) {
  return node.kind == Kind::kRelation &&
         std::all_of(node.name.begin(), node.name.end(), [](char op) { return op == '=' || op == '~'; });
}

bool is_assignment(const Node& node) {
  return is_equation(node) && is_name(node.parts.front());
}

std::optional<Node> interval_of(const Node& node) {
  if (node.kind != Kind::kList) return one_interval(node);
  std::vector<Node> parts;
  for (const Node& part : node.parts) {
    std::optional<Node> one = one_interval(part);
    if (!one) return std::nullopt;
    parts.push_back(std::move(*one));
  }
  return branch(Kind::kUnion, std::move(parts));
}

bool same_relation(const Node& reference, const Node& given, Budget& budget) {
  if (is_equation(reference) && is_equation(given)) return same_equation(reference, given, budget);
  const auto wanted = one_interval(reference);
  const auto found = wanted ? one_interval(given) : std::nullopt;
  if (found) {
    return variable_of(reference)->name == variable_of(given)->name && same_answer(*wanted, *found, budget);
  }
  if (reference.name.size() == 1 && given.name.size() == 1) {
    const char op = reference.name.front();
    const char given_op = given.name.front();
    const bool ordered = less(op) || greater(op);
    const bool given_ordered = less(given_op) || greater(given_op);
    if (ordered && given_ordered && strict(op) == strict(given_op)) {
      const int sign = factor_sign(difference(reference.parts[0], reference.parts[1]),
                                   difference(given.parts[0], given.parts[1]), budget);
      return sign != 0 && (sign > 0) == (less(op) == less(given_op));
    }
    if (op == '!' && given_op == '!') {
      return factor_sign(difference(reference.parts[0], reference.parts[1]),
                         difference(given.parts[0], given.parts[1]), budget) != 0;
    }
  }
  if (is_chain(reference) && is_chain(given) && same_real_set(reference, given, budget))
    return true;  // -4 < 2x < 6 and -2 < x < 3
  if (reference.name != given.name) return false;
  for (std::size_t i = 0; i < reference.parts.size(); ++i) {
    if (!same_answer(reference.parts[i], given.parts[i], budget)) return false;
  }
  return true;
}

}  // namespace routeopd::grade::math
