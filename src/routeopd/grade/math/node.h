// The expression tree of an answer.
//
//   \frac{x}{2} - 1   is   Sum( Product( Symbol x, Power( Number 2, Number -1 ) ), Number -1 )
//   (3, \infty)       is   Bracket "()"( Number 3, Infinity )
//   2 < x \le 5       is   Relation "<l"( Number 2, Symbol x, Number 5 )
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmpxx.h>

#include <cstdint>
#include <string>
#include <vector>

namespace routeopd::grade::math {

enum class Kind : std::uint8_t {
  kNumber,     // value; places
  kSymbol,     // name
  kText,       // name, words as they were written
  kPi,         //
  kEuler,      // e
  kImaginary,  // i
  kInfinity,   //
  kSum,        // two parts or more
  kProduct,    // two parts or more; a quotient is a power of -1
  kPower,      // base, exponent
  kRoot,       // radicand, index
  kPlusMinus,  // one part, with either sign; all of an answer's signs change together
  kMinusPlus,  // one part, with the opposite sign
  kCall,       // name of a function, arguments
  kPercent,    // one part
  kBase,       // name: digits; places: the base they are written in
  kRelation,   // name: one of = < > l (<=) g (>=) ! ~ : e (element of) between each two parts
  kBracket,    // name: the two brackets, of ( [ < and ) ] >; a tuple, an interval, a vector
  kSet,        // braces
  kList,       // separated by commas, semicolons, "and", "or", without brackets; places: kJoined…
  kUnion,      //
  kExcept,     // a set, and what is taken from it
  kBuilder,    // the variable, or a tuple of them; the condition, which may be a list; the domain, if any
  kMatrix,     // row by row; places: columns
};

// What stands between the parts of a list. Commas alone leave it open whether all are meant or any.
inline constexpr int kJoinedByCommas = -1, kJoinedByOr = 1, kJoinedByAnd = 2;  // 3: by both

struct Node {
  Kind kind = Kind::kNumber;
  std::string name{};
  mpq_class value{};
  int places = -1;  // of a number: digits after the decimal point, -1 without one
  std::vector<Node> parts{};
  int depth = 1;  // of the tree that hangs here
};

// Thrown by the functions below and by the parser for what is not mathematics, or too much of it.
struct Unreadable {};

Node number(mpq_class value, int places = -1);
Node leaf(Kind kind, std::string name = {});
// Throws Unreadable when the tree would become deeper than kDeepest.
Node branch(Kind kind, std::vector<Node> parts, std::string name = {});
Node negated(Node node);
Node reciprocal(Node node);

// The tree as one line. Trees spelled alike are the same.
std::string spelled(const Node& node);

bool contains(const Node& node, Kind kind);

// +1 or -1 for plus or minus infinity, 0 for all else.
int infinite_sign(const Node& node);

}  // namespace routeopd::grade::math
