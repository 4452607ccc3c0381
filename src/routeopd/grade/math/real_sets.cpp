// A set is the ascending list of places where the real line enters and leaves it. A place is just before or
// just after a number, so that open and closed ends, and single points, are one thing.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/real_sets.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/grade/math/equivalence.h"
#include "routeopd/grade/math/normal_form.h"
#include "routeopd/grade/math/numeric_value.h"
#include "routeopd/grade/math/scalar.h"

namespace routeopd::grade::math {
namespace {

struct Place {
  Node number;  // infinite at the two ends of the line
  bool after = false;
};
using RealSet = std::vector<Place>;

Node total(Node left, Node right) {
  std::vector<Node> parts;
  parts.push_back(std::move(left));
  parts.push_back(std::move(right));
  return branch(Kind::kSum, std::move(parts));
}

Node product(Node left, Node right) {
  std::vector<Node> parts;
  parts.push_back(std::move(left));
  parts.push_back(std::move(right));
  return branch(Kind::kProduct, std::move(parts));
}

// c · variable + rest, both of them constant. Without a slope the variable does not occur.
struct Line {
  std::optional<Node> slope;
  Node rest;
};

Line line_of(const Node& node, const std::string& variable) {
  if (!contains(node, Kind::kSymbol)) return {std::nullopt, node};
  if (node.kind == Kind::kSymbol && node.name == variable) return {number(1), number(0)};
  Line line{std::nullopt, number(node.kind == Kind::kSum ? 0 : 1)};
  if (node.kind == Kind::kSum) {
    for (const Node& part : node.parts) {
      Line one = line_of(part, variable);
      line.rest = total(std::move(line.rest), std::move(one.rest));
      if (!one.slope) continue;
      line.slope = line.slope ? total(std::move(*line.slope), std::move(*one.slope)) : std::move(*one.slope);
    }
    return line;
  }
  if (node.kind != Kind::kProduct) throw Unreadable();
  for (const Node& part : node.parts) {
    Line one = line_of(part, variable);
    if (line.slope && one.slope) throw Unreadable();  // a square
    if (one.slope)
      line.slope = product(line.rest, std::move(*one.slope));
    else if (line.slope)
      line.slope = product(std::move(*line.slope), one.rest);
    line.rest = product(std::move(line.rest), std::move(one.rest));
  }
  return line;
}

// The first variable of a relation: the one it is to be solved for.
const std::string* variable_in(const Node& node) {
  if (node.kind == Kind::kSymbol) return &node.name;
  for (const Node& part : node.parts) {
    if (const std::string* const name = variable_in(part)) return name;
  }
  return nullptr;
}

class RealSets {
 public:
  explicit RealSets(Budget& budget) : budget_(budget) {}

  // Throws Unreadable where the node is no such set.
  RealSet of(const Node& node) {
    if (!budget_.spend()) throw Unreadable();
    switch (node.kind) {
      case Kind::kBracket:
        return interval(node);
      case Kind::kUnion:
      case Kind::kSet: {
        RealSet all;
        for (const Node& part : node.parts)
          all = united(all, node.kind == Kind::kUnion ? of(part) : points(part));
        return all;
      }
      case Kind::kExcept:
        return without(of(node.parts[0]), taken(node.parts[1]));
      case Kind::kSum:  // \mathbb{R} - \{2\}
        if (!is_described_set(node)) throw Unreadable();
        return without(of(node.parts[0]), of(node.parts[1].parts[1]));
      case Kind::kBuilder: {
        if (node.parts[0].kind != Kind::kSymbol) throw Unreadable();
        RealSet domain = node.parts.size() > 2 ? of(node.parts[2]) : line();
        return shared(domain, condition(node.parts[1], node.parts[0].name, true));
      }
      case Kind::kRelation:
      case Kind::kList: {
        const std::string* const variable = variable_in(node);
        if (variable == nullptr) throw Unreadable();
        return condition(node, *variable, false);
      }
      default:
        throw Unreadable();
    }
  }

  bool same(const RealSet& left, const RealSet& right) {
    return left.size() == right.size() &&
           std::equal(left.begin(), left.end(), right.begin(),
                      [&](const Place& one, const Place& other) { return order(one, other) == 0; });
  }

 private:
  static RealSet line() { return {{negated(leaf(Kind::kInfinity)), false}, {leaf(Kind::kInfinity), true}}; }

  int sign_of(const Node& constant) {
    if (const auto value = rational_value(constant, budget_)) return sgn(*value);
    const Value value = value_at(constant, 0, budget_);
    if (!value.number.is_tame() || !value.number.is_real()) throw Unreadable();
    return value.number.re.sign();
  }

  int order(const Node& left, const Node& right) {
    if (!budget_.spend()) throw Unreadable();
    const int infinity = infinite_sign(left) - infinite_sign(right);
    if (infinite_sign(left) != 0 || infinite_sign(right) != 0) return infinity;
    if (same_scalar(left, right, budget_)) return 0;
    return sign_of(total(left, negated(right)));
  }

  int order(const Place& left, const Place& right) {
    const int numbers = order(left.number, right.number);
    return numbers != 0 ? numbers : static_cast<int>(left.after) - static_cast<int>(right.after);
  }

  // The places where `in` of the two sets changes; it is false outside of both.
  template <class In>
  RealSet combined(const RealSet& left, const RealSet& right, const In& in) {
    RealSet all;
    std::size_t l = 0, r = 0;
    while (l < left.size() || r < right.size()) {
      const int first = l == left.size() ? 1 : r == right.size() ? -1 : order(left[l], right[r]);
      const Place& place = first <= 0 ? left[l] : right[r];
      if (first <= 0) ++l;
      if (first >= 0) ++r;
      if (in(l % 2 != 0, r % 2 != 0) != (all.size() % 2 != 0)) all.push_back(place);
    }
    return all;
  }
  RealSet united(const RealSet& left, const RealSet& right) {
    return combined(left, right, [](bool l, bool r) { return l || r; });
  }
  RealSet shared(const RealSet& left, const RealSet& right) {
    return combined(left, right, [](bool l, bool r) { return l && r; });
  }
  RealSet without(const RealSet& left, const RealSet& right) {
    return combined(left, right, [](bool l, bool r) { return l && !r; });
  }

  void check_constant(const Node& node) {
    if (infinite_sign(node) != 0) return;
    if (contains(node, Kind::kSymbol)) throw Unreadable();
    sign_of(node);  // a real number
  }

  RealSet interval(const Node& node) {
    if (node.parts.size() != 2) throw Unreadable();
    for (const Node& end : node.parts) check_constant(end);
    const Place low{node.parts[0], node.name[0] == '('};
    const Place high{node.parts[1], node.name[1] == ']'};
    if (infinite_sign(low.number) > 0 || infinite_sign(high.number) < 0) throw Unreadable();
    // Nothing lies before or after the ends of the line, whatever their brackets.
    const RealSet all = {{low.number, infinite_sign(low.number) == 0 && low.after},
                         {high.number, infinite_sign(high.number) != 0 || high.after}};
    if (order(all[0], all[1]) >= 0) throw Unreadable();
    return all;
  }

  // What a difference takes away; of a single point the braces may be missing, as those of {2} are to LaTeX.
  RealSet taken(const Node& node) {
    switch (node.kind) {
      case Kind::kBracket:
      case Kind::kUnion:
      case Kind::kSet:
      case Kind::kExcept:
      case Kind::kBuilder:
        return of(node);
      default:
        return points(node);
    }
  }

  static RealSet point(const Node& node) { return {{node, false}, {node, true}}; }

  RealSet points(const Node& node) {
    const bool either = node.kind == Kind::kPlusMinus || node.kind == Kind::kMinusPlus;
    const Node& inside = either ? node.parts[0] : node;
    if (infinite_sign(inside) != 0) throw Unreadable();
    check_constant(inside);
    return either ? united(point(inside), point(negated(inside))) : point(inside);
  }

  // What a relation, or a list of relations, leaves to the variable. Commas between the conditions of a
  // builder mean "and".
  RealSet condition(const Node& node, const std::string& variable, bool commas_join) {
    if (node.kind == Kind::kList) {
      const bool any = node.places == kJoinedByOr;
      if (!any && node.places != kJoinedByAnd && !(commas_join && node.places == kJoinedByCommas))
        throw Unreadable();
      RealSet all = any ? RealSet() : line();
      for (const Node& part : node.parts) {
        const RealSet one = condition(part, variable, commas_join);
        all = any ? united(all, one) : shared(all, one);
      }
      return all;
    }
    if (node.kind != Kind::kRelation) throw Unreadable();
    RealSet all = line();
    for (std::size_t i = 0; i < node.name.size(); ++i)
      all = shared(all, pair(node.parts[i], node.name[i], node.parts[i + 1], variable));
    return all;
  }

  RealSet pair(const Node& left, char op, const Node& right, const std::string& variable) {
    if (op == 'e') {
      if (left.kind != Kind::kSymbol || left.name != variable) throw Unreadable();
      return of(right);
    }
    if (op == '~' || op == ':') throw Unreadable();
    const bool less = op == '<' || op == 'l', greater = op == '>' || op == 'g';
    if (infinite_sign(left) != 0 || infinite_sign(right) != 0) {  // x < \infty leaves everything
      const bool holds = less ? infinite_sign(left) <= 0 && infinite_sign(right) >= 0
                              : greater && infinite_sign(left) >= 0 && infinite_sign(right) <= 0;
      if (!holds) throw Unreadable();
      return line();
    }
    const Line all = line_of(total(left, negated(right)), variable);
    const int slope = all.slope ? sign_of(*all.slope) : 0;
    if (slope == 0) throw Unreadable();
    const Node end = negated(product(all.rest, reciprocal(*all.slope)));
    sign_of(end);
    if (op == '=') return point(end);
    if (op == '!') return without(line(), point(end));
    const bool strict = op == '<' || op == '>';
    const RealSet whole = line();
    if (less == (slope > 0)) return {whole[0], {end, !strict}};
    return {{end, strict}, whole[1]};
  }

  Budget& budget_;
};

// The node with its variables called otherwise.
Node renamed(const Node& node, const std::vector<std::pair<std::string, std::string>>& names) {
  Node copy = node;
  if (node.kind == Kind::kSymbol) {
    for (const auto& [from, to] : names) {
      if (node.name == from) copy.name = to;
    }
  }
  for (Node& part : copy.parts) part = renamed(part, names);
  return copy;
}

// The names that a builder binds; names that no answer can write stand for them.
std::vector<std::pair<std::string, std::string>> bound_names(const Node& builder) {
  const Node& binder = builder.parts[0];
  std::vector<std::pair<std::string, std::string>> names;
  for (const Node& one : binder.kind == Kind::kSymbol ? std::vector<Node>{binder} : binder.parts) {
    if (one.kind != Kind::kSymbol) throw Unreadable();
    names.emplace_back(one.name, std::string(1, static_cast<char>(1 + names.size())));
  }
  return names;
}

bool is_whole_line(const Node& node) {
  return node.kind == Kind::kBracket && node.parts.size() == 2 && infinite_sign(node.parts[0]) < 0 &&
         infinite_sign(node.parts[1]) > 0;
}

std::vector<Node> conditions_of(const Node& builder,
                                const std::vector<std::pair<std::string, std::string>>& names) {
  std::vector<Node> all;
  const Node condition = renamed(builder.parts[1], names);
  if (condition.kind == Kind::kList) {
    all = condition.parts;
  } else {
    all.push_back(condition);
  }
  return all;
}

bool same_builder(const Node& reference, const Node& given, Budget& budget) {
  const auto names = bound_names(reference), given_names = bound_names(given);
  if (names.size() != given_names.size()) return false;
  const auto domain = [](const Node& builder) {
    const bool whole = builder.parts.size() < 3 || is_whole_line(builder.parts[2]);
    return whole ? nullptr : &builder.parts[2];
  };
  const Node* const wanted = domain(reference);
  const Node* const found = domain(given);
  if ((wanted == nullptr) != (found == nullptr)) return false;
  if (wanted != nullptr && !same_answer(*wanted, *found, budget)) return false;
  const std::vector<Node> all = conditions_of(reference, names), others = conditions_of(given, given_names);
  const auto joint = [](const Node& condition) {
    return condition.places == kJoinedByCommas ? kJoinedByAnd : condition.places;
  };
  if (all.size() != others.size()) return false;
  if (all.size() > 1 && joint(reference.parts[1]) != joint(given.parts[1])) return false;
  const auto holds = [&](const std::vector<Node>& list, const Node& one, bool turned) {
    return std::any_of(list.begin(), list.end(), [&](const Node& other) {
      return turned ? same_answer(other, one, budget) : same_answer(one, other, budget);
    });
  };
  return std::all_of(all.begin(), all.end(), [&](const Node& one) { return holds(others, one, false); }) &&
         std::all_of(others.begin(), others.end(), [&](const Node& one) { return holds(all, one, true); });
}

// A relation, or a list of them, speaks of one variable, and another that does must have the same. Builders
// bind theirs.
bool names_agree(const Node& one, const Node& other) {
  const auto speaks = [](const Node& node) {
    return node.kind == Kind::kRelation || node.kind == Kind::kList || node.kind == Kind::kBuilder;
  };
  if (one.kind == Kind::kBuilder && other.kind == Kind::kBuilder) return true;
  if (!speaks(one) || !speaks(other)) return true;
  const std::string* const name = variable_in(one);
  const std::string* const other_name = variable_in(other);
  return name != nullptr && other_name != nullptr && *name == *other_name;
}

}  // namespace

bool is_described_set(const Node& node) {
  if (node.kind == Kind::kSum) {
    const Node& last = node.parts.back();
    return node.parts.size() == 2 && last.kind == Kind::kProduct && last.parts.size() == 2 &&
           last.parts[1].kind == Kind::kSet &&
           (node.parts[0].kind == Kind::kBracket || node.parts[0].kind == Kind::kSet);
  }
  return node.kind == Kind::kExcept || node.kind == Kind::kBuilder;
}

bool same_real_set(const Node& reference, const Node& given, Budget& budget) {
  try {
    RealSets sets(budget);
    return names_agree(reference, given) && sets.same(sets.of(reference), sets.of(given));
  } catch (const Unreadable&) {
    return false;
  }
}

bool same_described_set(const Node& reference, const Node& given, Budget& budget) {
  if (same_real_set(reference, given, budget)) return true;
  if (reference.kind != given.kind) return false;
  if (reference.kind == Kind::kBuilder) return same_builder(reference, given, budget);
  return reference.kind == Kind::kExcept && same_answer(reference.parts[0], given.parts[0], budget) &&
         same_answer(reference.parts[1], given.parts[1], budget);
}

}  // namespace routeopd::grade::math
