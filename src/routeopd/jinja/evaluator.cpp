// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/evaluator.h"

#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/jinja/builtins.h"
#include "routeopd/jinja/conversions.h"
#include "routeopd/jinja/filters.h"
#include "routeopd/jinja/methods.h"
#include "routeopd/jinja/operators.h"

namespace routeopd::jinja {
namespace {

constexpr std::int64_t kNamespaceBytes = 512;

}  // namespace

Evaluator::~Evaluator() {
  for (const NamespacePtr& space : namespaces_) space->attributes.clear();
}

Value Evaluator::make_namespace(std::vector<std::pair<std::string, Value>> attributes) {
  auto made = std::make_shared<Namespace>(Namespace{std::move(attributes), Charge(heap_, kNamespaceBytes)});
  namespaces_.push_back(made);
  return made;
}

void Evaluator::enter_operation() {
  if (++depth_ > heap_.limits().depth)
    throw UserError("expected at most {} nested operations, got more; does a macro call itself?",
                    heap_.limits().depth);
}

// An error ends the rendering, so that depth and line need not be restored after one. The line stays for its
// message.
Value Evaluator::evaluate(const Expression& expression) {
  heap_.spend(1);
  const int outer_line = line_;
  line_ = expression.line;
  enter_operation();
  Value result = evaluate_kind(expression);
  --depth_;
  line_ = outer_line;
  return result;
}

Value Evaluator::evaluate_kind(const Expression& expression) {
  const ExpressionList& parts = expression.parts;
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return evaluate_name(expression.name);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return evaluate_list(expression);
    case ExpressionKind::kDict:
      return evaluate_dict(expression);
    case ExpressionKind::kConditional:
      if (truth(evaluate(*parts[1]))) return evaluate(*parts[0]);
      if (parts[2] != nullptr) return evaluate(*parts[2]);
      return undefined("a value is used that its inline if, which has no else, did not give");
    case ExpressionKind::kOr: {
      Value left = evaluate(*parts[0]);
      return truth(left) ? left : evaluate(*parts[1]);
    }
    case ExpressionKind::kAnd: {
      Value left = evaluate(*parts[0]);
      return truth(left) ? evaluate(*parts[1]) : left;
    }
    case ExpressionKind::kNot:
      return !truth(evaluate(*parts[0]));
    case ExpressionKind::kCompare:
      return evaluate_comparison(expression);
    case ExpressionKind::kConcat:
      return evaluate_concatenation(expression);
    case ExpressionKind::kBinary: {
      const Value left = evaluate(*parts[0]);
      return binary(*this, expression.name, left, evaluate(*parts[1]));
    }
    case ExpressionKind::kNegate:
      return negated(evaluate(*parts[0]));
    case ExpressionKind::kPlus:
      return plus(evaluate(*parts[0]));
    case ExpressionKind::kAttribute:
      return get_attribute(heap_, evaluate(*parts[0]), expression.name);
    case ExpressionKind::kItem: {
      const Value object = evaluate(*parts[0]);
      return get_item(heap_, object, evaluate(*parts[1]));
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(expression);
    case ExpressionKind::kCall:
      return evaluate_call(expression);
    case ExpressionKind::kFilter:
      return evaluate_filter(expression, nullptr);
    case ExpressionKind::kTest:
      return evaluate_test(expression);
  }
  return None{};
}

Value Evaluator::evaluate_name(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    if (const auto found = scope->values.find(name); found != scope->values.end()) return found->second;
  }
  if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
  if (auto found = global(heap_, name)) return *std::move(found);
  return undefined(fmt::format("'{}' is undefined", name));
}

Value Evaluator::evaluate_list(const Expression& expression) {
  Values items;
  items.reserve(expression.parts.size());
  for (const ExpressionPtr& part : expression.parts) items.push_back(evaluate(*part));
  return expression.kind == ExpressionKind::kList ? heap_.list(std::move(items))
                                                  : heap_.tuple(std::move(items));
}

Value Evaluator::evaluate_dict(const Expression& expression) {
  std::vector<std::pair<Value, Value>> entries;
  entries.reserve(expression.parts.size() / 2);
  for (std::size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
    Value key = evaluate(*expression.parts[i]);
    entries.emplace_back(std::move(key), evaluate(*expression.parts[i + 1]));
  }
  return heap_.dict(std::move(entries));
}

// a < b < c: each operand is evaluated once, and none after the first comparison that fails.
Value Evaluator::evaluate_comparison(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1]);
    if (!compare(heap_, expression.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::evaluate_concatenation(const Expression& expression) {
  TextBuilder builder(heap_);
  for (const ExpressionPtr& part : expression.parts) builder.add(str(heap_, evaluate(*part)));
  return heap_.text(std::move(builder.text()));
}

Value Evaluator::evaluate_slice(const Expression& expression) {
  const Value object = evaluate(*expression.parts[0]);
  Values bounds;
  for (std::size_t i = 1; i <= 3; ++i)
    bounds.push_back(expression.parts[i] == nullptr ? Value(None{}) : evaluate(*expression.parts[i]));
  return slice(heap_, object, bounds[0], bounds[1], bounds[2]);
}

Value Evaluator::evaluate_call(const Expression& expression) {
  const Value function = evaluate(*expression.parts[0]);
  return call(function, evaluate_arguments(expression.arguments));
}

Value Evaluator::evaluate_filter(const Expression& expression, const Value* body) {
  Value value;
  if (expression.parts[0] == nullptr) {
    value = *body;
  } else if (body != nullptr) {
    value = evaluate_filter(*expression.parts[0], body);
  } else {
    value = evaluate(*expression.parts[0]);
  }
  return apply_filter(expression.name, value, evaluate_arguments(expression.arguments));
}

Value Evaluator::evaluate_test(const Expression& expression) {
  const Value value = evaluate(*expression.parts[0]);
  return apply_test(expression.name, value, evaluate_arguments(expression.arguments));
}

Arguments Evaluator::evaluate_arguments(const CallArguments& arguments) {
  Arguments found;
  for (const ExpressionPtr& each : arguments.positional) found.positional.push_back(evaluate(*each));
  for (const auto& [name, each] : arguments.named) found.named.emplace_back(name, evaluate(*each));
  if (arguments.spread != nullptr) {
    for (Value& each : items_of(heap_, evaluate(*arguments.spread)))
      found.positional.push_back(std::move(each));
  }
  if (arguments.spread_named != nullptr) {
    const Value names = evaluate(*arguments.spread_named);
    const Dict* dict = as_dict(names);
    if (dict == nullptr) throw UserError("expected a dict after **, got {}", type_name(names));
    for (const auto& [key, value] : dict->entries) {
      const Text* name = as_text(key);
      if (name == nullptr) throw UserError("expected texts as keys after **, got {}", type_name(key));
      for (const auto& [other, ignored] : found.named) {
        if (other == name->bytes) throw UserError("expected each argument once, got {} twice", other);
      }
      heap_.spend(1 + static_cast<std::int64_t>(found.named.size()));
      found.named.emplace_back(name->bytes, value);
    }
  }
  return found;
}

Value Evaluator::call(const Value& function, Arguments arguments) {
  if (is_undefined(function)) fail_undefined(function);
  if (const auto* callable = get_if<CallablePtr>(function)) {
    const CallablePtr kept = *callable;
    return kept->call(*this, std::move(arguments));
  }
  if (const auto* cycler = get_if<CyclerPtr>(function); cycler != nullptr && (*cycler)->joiner)
    return call_joiner(**cycler, heap_);
  if (get_if<LoopPtr>(function) != nullptr) throw UserError("recursive loops are not supported");
  throw UserError("expected something to call, got {}", type_name(function));
}

Value Evaluator::apply_filter(std::string_view name, const Value& value, Arguments arguments) {
  FilterFunction* const filter = find_filter(name);
  if (filter == nullptr) throw UserError("filter {} is not supported", name);
  return filter(*this, value, arguments);
}

bool Evaluator::apply_test(std::string_view name, const Value& value, Arguments arguments) {
  TestFunction* const test = find_test(name);
  if (test == nullptr) throw UserError("test {} is not supported", name);
  return test(*this, value, arguments);
}

}  // namespace routeopd::jinja
