// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/equivalence.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/math/real_sets.h"
#include "routeopd/grade/math/relations.h"
#include "routeopd/grade/math/scalar.h"

namespace routeopd::grade::math {
namespace {

// The tree with every ± read as + (or -), every ∓ as the opposite.
Node with_signs(const Node& node, bool plus) {
  if (node.kind == Kind::kPlusMinus || node.kind == Kind::kMinusPlus) {
    Node inside = with_signs(node.parts[0], plus);
    return (node.kind == Kind::kPlusMinus) == plus ? inside : negated(std::move(inside));
  }
  Node copy = node;
  for (Node& part : copy.parts) part = with_signs(part, plus);
  return copy;
}

bool has_signs(const Node& node) {
  return contains(node, Kind::kPlusMinus) || contains(node, Kind::kMinusPlus);
}

// What a list or a set holds; an answer with ± is two.
void collect(const Node& node, std::vector<Node>& elements) {
  if (node.kind == Kind::kList || node.kind == Kind::kSet) {
    for (const Node& part : node.parts) collect(part, elements);
  } else if (has_signs(node)) {
    elements.push_back(with_signs(node, true));
    elements.push_back(with_signs(node, false));
  } else {
    elements.push_back(node);
  }
}

bool is_plural(const Node& node) {
  return node.kind == Kind::kList || node.kind == Kind::kSet ||
         (node.kind != Kind::kBracket && node.kind != Kind::kUnion && has_signs(node));
}

bool in_order(const std::vector<Node>& reference, const std::vector<Node>& given, Budget& budget) {
  if (reference.size() != given.size()) return false;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (!same_answer(reference[i], given[i], budget)) return false;
  }
  return true;
}

// As many of each, in any order.
bool in_any_order(const std::vector<Node>& reference, const std::vector<Node>& given, Budget& budget) {
  if (reference.size() != given.size()) return false;
  std::vector<bool> used(given.size());
  for (const Node& wanted : reference) {
    bool found = false;
    for (std::size_t i = 0; i < given.size() && !found; ++i) {
      if (used[i] || !same_answer(wanted, given[i], budget)) continue;
      used[i] = found = true;
    }
    if (!found) return false;
  }
  return true;
}

// Each has the other's elements, however often.
bool same_elements(const std::vector<Node>& reference, const std::vector<Node>& given, Budget& budget) {
  const auto holds = [&](const std::vector<Node>& all, const Node& one, bool turned) {
    return std::any_of(all.begin(), all.end(), [&](const Node& other) {
      return turned ? same_answer(other, one, budget) : same_answer(one, other, budget);
    });
  };
  return std::all_of(reference.begin(), reference.end(),
                     [&](const Node& one) { return holds(given, one, false); }) &&
         std::all_of(given.begin(), given.end(),
                     [&](const Node& one) { return holds(reference, one, true); });
}

bool same_plural(const Node& reference, const Node& given, Budget& budget) {
  const bool pair = reference.kind == Kind::kBracket && reference.name == "()";
  if (pair && given.kind == Kind::kList) return in_order(reference.parts, given.parts, budget);
  const bool given_pair = given.kind == Kind::kBracket && given.name == "()";
  if (reference.kind == Kind::kList && given_pair) return in_any_order(reference.parts, given.parts, budget);
  std::vector<Node> wanted;
  std::vector<Node> found;
  collect(reference, wanted);
  collect(given, found);
  if (!budget.spend(static_cast<std::int64_t>(wanted.size() + found.size()))) return false;
  const bool sets = reference.kind == Kind::kSet || given.kind == Kind::kSet;
  return sets ? same_elements(wanted, found, budget) : in_any_order(wanted, found, budget);
}

bool same_words(const Node& reference, const Node& given) {
  return reference.kind == given.kind && lower_case(reference.name) == lower_case(given.name);
}

std::string_view without_zeros(std::string_view digits) {
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

// 52_8 is 52_8, and also 52, without its base; nothing else.
bool same_base(const Node& reference, const Node& given) {
  if (reference.kind == given.kind) {
    return reference.places == given.places && without_zeros(reference.name) == without_zeros(given.name);
  }
  const Node& based = reference.kind == Kind::kBase ? reference : given;
  const Node& plain = reference.kind == Kind::kBase ? given : reference;
  if (plain.kind != Kind::kNumber || plain.places >= 0 || plain.value < 0) return false;
  const bool allowed = based.places == 10 || reference.kind == Kind::kBase;
  return allowed && plain.value.get_str() == without_zeros(based.name);
}

// 10\% is 0.1, and also 10, without its sign.
bool same_percent(const Node& reference, const Node& given, Budget& budget) {
  if (same_scalar(reference, given, budget)) return true;
  return reference.kind == Kind::kPercent && given.kind != Kind::kPercent &&
         same_scalar(reference.parts[0], given, budget);
}

bool is_unit_letter(const Node& node) {
  const Node& base = node.kind == Kind::kPower ? node.parts[0] : node;
  return base.kind == Kind::kSymbol && base.name.size() == 1 &&
         std::string_view("mshgLlCFKVN").find(base.name.front()) != std::string_view::npos;
}

// "5 m" where a number is wanted: without the letter, nothing if there is none.
const Node* before_unit_letter(const Node& reference, const Node& given) {
  if (given.kind != Kind::kProduct || given.parts.size() != 2 || !is_unit_letter(given.parts[1]))
    return nullptr;
  return contains(reference, Kind::kSymbol) ? nullptr : &given.parts[0];
}

bool same_plain(const Node& reference, const Node& given, Budget& budget) {
  if (reference.kind == Kind::kText || given.kind == Kind::kText) return same_words(reference, given);
  if (reference.kind == Kind::kBase || given.kind == Kind::kBase) return same_base(reference, given);
  if (reference.kind == Kind::kPercent || given.kind == Kind::kPercent)
    return same_percent(reference, given, budget);
  if (same_scalar(reference, given, budget)) return true;
  const Node* const value = before_unit_letter(reference, given);
  return value != nullptr && same_scalar(reference, *value, budget);
}

bool compare(const Node& reference, const Node& given, Budget& budget);

bool spans(const Node& node) {
  return node.kind == Kind::kUnion || node.kind == Kind::kBracket;
}

bool compare_relation(const Node& reference, const Node& given, Budget& budget) {
  const bool wanted = reference.kind == Kind::kRelation;
  const bool found = given.kind == Kind::kRelation;
  if (wanted && reference.name == "e") return compare(reference.parts[1], given, budget);
  if (found && given.name == "e") return compare(reference, given.parts[1], budget);
  if (wanted && found) {
    if (has_signs(reference) != has_signs(given)) return same_plural(reference, given, budget);
    return same_relation(reference, given, budget);
  }
  if (found) {
    if (is_equation(given)) return compare(reference, given.parts.back(), budget);
    const auto interval = interval_of(given);
    if (interval) return compare(reference, *interval, budget);
    return spans(reference) && same_real_set(reference, given, budget);
  }
  if (is_assignment(reference)) return compare(reference.parts.back(), given, budget);
  if (is_equation(reference)) return false;
  const auto interval = interval_of(reference);
  if (interval) return compare(*interval, given, budget);
  return spans(given) && same_real_set(reference, given, budget);
}

// 3:4 is 3/4.
Node quotient_of(const Node& proportion) {
  std::vector<Node> parts;
  parts.push_back(proportion.parts[0]);
  parts.push_back(reciprocal(proportion.parts[1]));
  return branch(Kind::kProduct, std::move(parts));
}

bool is_approximation(const Node& node) {
  return node.kind == Kind::kRelation && node.name.find('~') != std::string::npos;
}

// What stands before the first ≈.
Node before_approximation(const Node& node) {
  const std::size_t at = node.name.find('~');
  if (at == 0) return node.parts.front();
  return branch(Kind::kRelation,
                {node.parts.begin(), node.parts.begin() + static_cast<std::ptrdiff_t>(at) + 1},
                node.name.substr(0, at));
}

bool compare(const Node& reference, const Node& given, Budget& budget) {
  if (!budget.spend()) return false;
  if (is_approximation(given) && !is_approximation(reference)) {  // 2\sqrt3 ≈ 3.46: either will do
    return compare(reference, before_approximation(given), budget) ||
           compare(reference, given.parts.back(), budget);
  }
  if (reference.kind == Kind::kRelation && reference.name == ":") {
    return compare(quotient_of(reference), given, budget);
  }
  if (given.kind == Kind::kRelation && given.name == ":")
    return compare(reference, quotient_of(given), budget);
  const bool plural = reference.kind == Kind::kList || given.kind == Kind::kList ||
                      reference.kind == Kind::kSet || given.kind == Kind::kSet;
  if (plural && (spans(reference) || spans(given))) {  // x < 2 or x > 3
    const auto interval = interval_of(spans(reference) ? given : reference);
    const bool in_parts = reference.kind == Kind::kUnion || given.kind == Kind::kUnion;
    const Node& wanted = interval && !spans(reference) ? *interval : reference;
    const Node& found = interval && spans(reference) ? *interval : given;
    if (interval)
      return (in_parts && in_any_order(wanted.parts, found.parts, budget)) ||
             same_real_set(reference, given, budget);
  }
  if ((reference.kind == Kind::kUnion || given.kind == Kind::kUnion) &&
      same_real_set(reference, given, budget)) {
    return true;
  }
  if (is_described_set(reference) || is_described_set(given)) {
    const auto names_it = [](const Node& node) {
      return node.kind == Kind::kRelation && (node.name == "e" || is_equation(node));
    };
    if (!names_it(reference) && !names_it(given)) return same_described_set(reference, given, budget);
  }
  if (!plural && (reference.kind == Kind::kRelation || given.kind == Kind::kRelation)) {
    return compare_relation(reference, given, budget);
  }
  if (is_plural(reference) || is_plural(given)) return same_plural(reference, given, budget);
  if (reference.kind == given.kind) {
    switch (reference.kind) {
      case Kind::kUnion:
        return in_any_order(reference.parts, given.parts, budget);
      case Kind::kBracket:
        return reference.name == given.name && in_order(reference.parts, given.parts, budget);
      case Kind::kMatrix:
        return reference.places == given.places && in_order(reference.parts, given.parts, budget);
      default:
        break;
    }
  }
  return same_plain(reference, given, budget);
}

}  // namespace

bool same_answer(const Node& reference, const Node& given, Budget& budget) {
  if (!budget.spend()) return false;
  if (spelled(reference) == spelled(given)) return true;
  try {
    return compare(reference, given, budget);
  } catch (const Unreadable&) {  // a tree that became too deep on the way
    return false;
  }
}

}  // namespace routeopd::grade::math
