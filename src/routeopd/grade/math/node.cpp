// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "routeopd/grade/math/budget.h"

namespace routeopd::grade::math {
namespace {

void spell(const Node& node, std::string& line) {
  line += static_cast<char>('A' + static_cast<int>(node.kind));
  switch (node.kind) {
    case Kind::kNumber:
      line += node.value.get_str();
      break;
    case Kind::kBase:
    case Kind::kMatrix:
      line += fmt::format("{}_{}", node.name, node.places);
      break;
    default:
      line += node.name;
  }
  if (node.parts.empty()) return;
  line += '(';
  for (const Node& part : node.parts) {
    spell(part, line);
    line += ' ';
  }
  line += ')';
}

}  // namespace

Node number(mpq_class value, int places) {
  Node node;
  node.value = std::move(value);
  node.places = places;
  return node;
}

Node leaf(Kind kind, std::string name) {
  Node node;
  node.kind = kind;
  node.name = std::move(name);
  return node;
}

Node branch(Kind kind, std::vector<Node> parts, std::string name) {
  Node node = leaf(kind, std::move(name));
  for (const Node& part : parts) node.depth = std::max(node.depth, part.depth + 1);
  if (node.depth > kDeepest) throw Unreadable();
  node.parts = std::move(parts);
  return node;
}

Node negated(Node node) {
  if (node.kind == Kind::kNumber) {
    node.value = -node.value;
    return node;
  }
  std::vector<Node> parts;
  parts.push_back(number(-1));
  parts.push_back(std::move(node));
  return branch(Kind::kProduct, std::move(parts));
}

Node reciprocal(Node node) {
  std::vector<Node> parts;
  parts.push_back(std::move(node));
  parts.push_back(number(-1));
  return branch(Kind::kPower, std::move(parts));
}

std::string spelled(const Node& node) {
  std::string line;
  spell(node, line);
  return line;
}

bool contains(const Node& node, Kind kind) {
  return node.kind == kind || std::any_of(node.parts.begin(), node.parts.end(),
                                          [kind](const Node& part) { return contains(part, kind); });
}

int infinite_sign(const Node& node) {
  if (node.kind == Kind::kInfinity) return 1;
  const bool minus = node.kind == Kind::kProduct && node.parts.size() == 2 &&
                     node.parts[0].kind == Kind::kNumber && node.parts[0].value == -1 &&
                     node.parts[1].kind == Kind::kInfinity;
  return minus ? -1 : 0;
}

}  // namespace routeopd::grade::math
