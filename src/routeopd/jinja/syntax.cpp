// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/syntax.h"

#include <set>
#include <string>
#include <string_view>

namespace routeopd::jinja {
namespace {

// The names of one body, or of one branch of an if in it.
struct Names {
  const Names* outer = nullptr;  // the enclosing scope, or for a branch its body
  std::set<std::string_view> known;
  std::vector<std::string> hidden;

  bool knows(std::string_view name) const {
    for (const Names* at = this; at != nullptr; at = at->outer) {
      if (at->known.contains(name)) return true;
    }
    return false;
  }

  void load(std::string_view name) {
    if (!knows(name)) known.insert(name);
  }
  void store(std::string_view name) {
    if (!knows(name)) hidden.emplace_back(name);
    known.insert(name);
  }
};

void load_all(const Expression* expression, Names& names) {
  if (expression == nullptr) return;
  if (expression->kind == ExpressionKind::kName) names.load(expression->name);
  for (const ExpressionPtr& part : expression->parts) load_all(part.get(), names);
  for (const ExpressionPtr& part : expression->arguments.positional) load_all(part.get(), names);
  for (const auto& [name, part] : expression->arguments.named) load_all(part.get(), names);
  load_all(expression->arguments.spread.get(), names);
  load_all(expression->arguments.spread_named.get(), names);
}

void store_target(const Target& target, Names& names) {
  if (target.is_tuple) {
    for (const Target& part : target.parts) store_target(part, names);
  } else if (target.attribute.empty()) {
    names.store(target.name);
  } else {
    names.load(target.name);
  }
}

void declare(const Target& target, Names& names) {
  if (target.is_tuple) {
    for (const Target& part : target.parts) declare(part, names);
  } else {
    names.known.insert(target.name);
  }
}

void look_at(const Block& block, Names& names);

// Collects what one statement loads and stores in its body. The bodies inside the statement come later.
void look_at(const Statement& statement, Names& names) {
  switch (statement.kind) {
    case StatementKind::kIf: {
      std::set<std::string_view> of_branches;
      const auto branch = [&](const Block& body) {
        Names inside{&names, {}, {}};  // a branch may not run, so that it hides nothing
        look_at(body, inside);
        of_branches.merge(inside.known);
      };
      for (const auto& [condition, body] : statement.branches) {
        load_all(condition.get(), names);
        branch(body);
      }
      branch(statement.otherwise);
      names.known.merge(of_branches);
      return;
    }
    case StatementKind::kMacro:
      names.store(statement.text);
      return;
    case StatementKind::kSetBlock:
      store_target(statement.target, names);
      return;
    case StatementKind::kWith:
      for (const auto& [target, value] : statement.bindings) load_all(value.get(), names);
      return;
    default:
      for (const ExpressionPtr& value : statement.values) load_all(value.get(), names);
      load_all(statement.value.get(), names);
      if (statement.kind == StatementKind::kSet) store_target(statement.target, names);
  }
}

void look_at(const Block& block, Names& names) {
  for (const auto& statement : block) look_at(*statement, names);
}

void descend(const Block& block, const Names& names);

// Resolves a body's own names, then those of the bodies in it.
std::vector<std::string> hidden_in(const Block& block, Names names) {
  look_at(block, names);
  descend(block, names);
  return std::move(names.hidden);
}

void descend(const Block& block, const Names& names) {
  for (const auto& statement : block) {
    for (const auto& [condition, body] : statement->branches) descend(body, names);
    if (statement->kind == StatementKind::kIf) {
      descend(statement->otherwise, names);
      continue;
    }
    if (!statement->otherwise.empty())
      statement->hidden_otherwise = hidden_in(statement->otherwise, Names{&names, {}, {}});
    Names inside{&names, {}, {}};
    if (statement->kind == StatementKind::kFor) {
      inside.known.insert("loop");
      declare(statement->target, inside);
    }
    for (const auto& [target, value] : statement->bindings) declare(target, inside);
    for (const Parameter& parameter : statement->parameters) inside.known.insert(parameter.name);
    for (const Parameter& parameter : statement->parameters) load_all(parameter.otherwise.get(), inside);
    if (!statement->body.empty()) statement->hidden = hidden_in(statement->body, std::move(inside));
  }
}

}  // namespace

void hide_names(Template& source) {
  source.hidden = hidden_in(source.body, Names{});
}

}  // namespace routeopd::jinja
