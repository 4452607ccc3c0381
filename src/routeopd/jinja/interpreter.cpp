// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/jinja/conversions.h"

namespace routeopd::jinja {
namespace {

constexpr std::int64_t kIterationSteps = 8;  // for making and freeing a scope
constexpr std::int64_t kScopeBytes = 512;    // a macro and its scope

}  // namespace

// Opens a scope, and closes it when it is destroyed.
class Interpreter::Within {
 public:
  Within(Interpreter& interpreter, ScopePtr outer) : interpreter_(interpreter), before_(interpreter.scope_) {
    interpreter_.scope_ = std::make_shared<Scope>(Scope{std::move(outer), {}});
  }
  explicit Within(Interpreter& interpreter) : Within(interpreter, interpreter.scope_) {}
  ~Within() { interpreter_.scope_ = before_; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  Interpreter& interpreter_;
  ScopePtr before_;
};

Interpreter::~Interpreter() {
  for (const auto& [scope, charge] : macro_scopes_) {
    scope->values.clear();
    scope->outer.reset();
  }
}

std::string Interpreter::render(const Template& source) {
  std::string text;
  out_ = &text;
  scope_ = std::make_shared<Scope>();
  try {
    hide(source.hidden);
    run(source.body);
  } catch (const UserError& error) {
    throw UserError("chat template, line {}: {}", line_, error.what());
  }
  return text;
}

void Interpreter::hide(const std::vector<std::string>& names) {
  heap_.spend(static_cast<std::int64_t>(names.size()));
  for (const std::string& name : names) set(name, undefined(fmt::format("'{}' is undefined", name)));
}

void Interpreter::emit(std::string_view text) {
  heap_.spend_bytes(text.size());
  pending_ += static_cast<std::int64_t>(text.size());
  heap_.expect_bytes(pending_);
  out_->append(text);
}

Interpreter::Flow Interpreter::run(const Block& block) {
  for (const auto& statement : block) {
    if (const Flow flow = run(*statement); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  heap_.spend(1);
  line_ = statement.line;
  enter_operation();
  Flow flow = Flow::kNext;
  switch (statement.kind) {
    case StatementKind::kText:
      emit(statement.text);
      break;
    case StatementKind::kPrint:
      for (const ExpressionPtr& value : statement.values) emit(str(heap_, evaluate(*value)));
      break;
    case StatementKind::kFor:
      flow = run_for(statement);
      break;
    case StatementKind::kIf:
      flow = run_if(statement);
      break;
    case StatementKind::kSet:
      assign(statement.target, evaluate(*statement.value));
      break;
    case StatementKind::kSetBlock:
      flow = run_set_block(statement);
      break;
    case StatementKind::kWith:
      flow = run_with(statement);
      break;
    case StatementKind::kMacro:
      set(statement.text, macro(statement, statement.text));
      break;
    case StatementKind::kCall:
      run_call(statement);
      break;
    case StatementKind::kFilter:
      flow = run_filter(statement);
      break;
    case StatementKind::kScope: {
      const Within within(*this);
      hide(statement.hidden);
      run(statement.body);
      break;
    }
    case StatementKind::kBreak:
      flow = Flow::kBreak;
      break;
    case StatementKind::kContinue:
      flow = Flow::kContinue;
      break;
  }
  --depth_;
  return flow;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement) {
  const Value iterable = evaluate(*statement.value);
  auto cursor = std::make_shared<Cursor>(heap_, iterable);
  const ScopePtr outer = scope_;
  const auto passes = [this, &statement, outer](const Value& item) {
    if (statement.condition == nullptr) return true;
    const Within within(*this, outer);
    assign(statement.target, item);
    return truth(evaluate(*statement.condition));
  };
  auto loop = std::make_shared<Loop>(heap_);
  struct Ending {
    Loop& ended;
    ~Ending() { ended.end(); }
  } const ending{*loop};

  loop->source = [cursor, passes](Value& item) {
    while (cursor->next(item)) {
      if (passes(item)) return true;
    }
    return false;
  };
  const bool has_length = get_if<IteratorPtr>(iterable) == nullptr && statement.condition == nullptr;
  if (has_length) loop->known_length = length_of(iterable);

  // As in jinja, `else` also runs when every iteration ended in break or continue.
  bool finished = false;
  while (loop->advance()) {
    heap_.spend(kIterationSteps);
    const Within within(*this, outer);
    hide(statement.hidden);
    set("loop", loop);
    assign(statement.target, loop->current);
    const Flow flow = run(statement.body);
    if (flow == Flow::kBreak) break;
    finished = finished || flow == Flow::kNext;
  }
  if (finished || statement.otherwise.empty()) return Flow::kNext;
  const Within within(*this, outer);
  hide(statement.hidden_otherwise);
  return run(statement.otherwise);
}

Interpreter::Flow Interpreter::run_if(const Statement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    if (truth(evaluate(*condition))) return run(body);
  }
  return run(statement.otherwise);
}

Interpreter::Flow Interpreter::run_captured(const Statement& statement, std::string& text) {
  const Within within(*this);
  hide(statement.hidden);
  std::string* const before = std::exchange(out_, &text);
  const Flow flow = run(statement.body);
  out_ = before;
  pending_ -= static_cast<std::int64_t>(text.size());
  return flow;
}

Interpreter::Flow Interpreter::run_set_block(const Statement& statement) {
  std::string text;
  const Flow flow = run_captured(statement, text);
  if (flow != Flow::kNext) return flow;
  Value value = heap_.text(std::move(text));
  if (statement.value != nullptr) value = evaluate_filter(*statement.value, &value);
  assign(statement.target, value);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_filter(const Statement& statement) {
  std::string text;
  const Flow flow = run_captured(statement, text);
  if (flow != Flow::kNext) return flow;
  const Value value = heap_.text(std::move(text));
  emit(str(heap_, evaluate_filter(*statement.value, &value)));
  return Flow::kNext;
}

// The values are evaluated in the outer scope.
Interpreter::Flow Interpreter::run_with(const Statement& statement) {
  Values values;
  for (const auto& [target, value] : statement.bindings) values.push_back(evaluate(*value));
  const Within within(*this);
  hide(statement.hidden);
  for (std::size_t i = 0; i < values.size(); ++i) assign(statement.bindings[i].first, values[i]);
  return run(statement.body);
}

void Interpreter::run_call(const Statement& statement) {
  const Expression& expression = *statement.value;
  const Value function = evaluate(*expression.parts[0]);
  Arguments arguments = evaluate_arguments(expression.arguments);
  arguments.named.emplace_back("caller", macro(statement, "caller"));
  emit(str(heap_, call(function, std::move(arguments))));
}

Value Interpreter::macro(const Statement& statement, std::string name) {
  if (macro_scopes_.empty() || macro_scopes_.back().first != scope_)
    macro_scopes_.emplace_back(scope_, Charge(heap_, kScopeBytes));
  std::vector<std::string> parameters;
  for (const Parameter& parameter : statement.parameters) parameters.push_back(parameter.name);
  const auto invoke = [this, &statement, name, scope = scope_](Evaluator&, Arguments arguments) {
    return call_macro(statement, name, scope, std::move(arguments));
  };
  return std::make_shared<const Callable>(
      Callable{std::move(name), invoke, true, std::move(parameters), 1, Charge(heap_, kScopeBytes)});
}

Value Interpreter::call_macro(const Statement& statement, const std::string& name, const ScopePtr& scope,
                              Arguments arguments) {
  const int outer_line = line_;
  const Within within(*this, scope);
  hide(statement.hidden);
  std::size_t used = 0;
  bool has_caller = false;
  for (const Parameter& parameter : statement.parameters) {
    has_caller = has_caller || parameter.name == "caller";
    heap_.spend(1 + static_cast<std::int64_t>(arguments.named.size() / 8));
    if (used < arguments.positional.size()) {
      set(parameter.name, arguments.positional[used++]);
      continue;
    }
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& each) { return each.first == parameter.name; });
    if (named != arguments.named.end()) {
      set(parameter.name, std::move(named->second));
      arguments.named.erase(named);
    } else if (parameter.otherwise != nullptr) {
      set(parameter.name, evaluate(*parameter.otherwise));
    } else {
      set(parameter.name, undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
    }
  }
  if (statement.uses_caller && !has_caller) {
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [](const auto& each) { return each.first == "caller"; });
    const bool given = named != arguments.named.end() && !is_none(named->second);
    set("caller", given ? named->second : undefined("No caller defined"));
    if (named != arguments.named.end()) arguments.named.erase(named);
  }
  if (statement.uses_kwargs) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [key, value] : arguments.named) entries.emplace_back(heap_.text(key), std::move(value));
    set("kwargs", heap_.dict(std::move(entries)));
  } else if (!arguments.named.empty()) {
    throw UserError("macro {} takes no argument named {}", name, arguments.named.front().first);
  }
  Values rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(used), arguments.positional.end());
  if (statement.uses_varargs) {
    set("varargs", heap_.tuple(std::move(rest)));
  } else if (!rest.empty()) {
    throw UserError("macro {} takes at most {} arguments", name, statement.parameters.size());
  }
  std::string text;
  std::string* const before = std::exchange(out_, &text);
  run(statement.body);
  out_ = before;
  pending_ -= static_cast<std::int64_t>(text.size());
  line_ = outer_line;
  return heap_.text(std::move(text));
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    const Values items = items_of(heap_, value);
    if (items.size() != target.parts.size())
      throw UserError("expected {} values to unpack, got {}", target.parts.size(), items.size());
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
    return;
  }
  if (target.attribute.empty()) return set(target.name, value);
  const Value space = evaluate_name(target.name);
  const auto* found = get_if<NamespacePtr>(space);
  if (found == nullptr)
    throw UserError("expected a namespace to set an attribute of, got {}", type_name(space));
  if (target.attribute.starts_with('_'))
    throw UserError("expected an attribute without an underscore in front, got {}", target.attribute);
  heap_.spend(1 + static_cast<std::int64_t>((*found)->attributes.size() / 4));
  for (auto& [name, held] : (*found)->attributes) {
    if (name == target.attribute) {
      held = value;
      return;
    }
  }
  heap_.expect_items(static_cast<std::int64_t>((*found)->attributes.size()) + 1);
  (*found)->attributes.emplace_back(target.attribute, value);
}

}  // namespace routeopd::jinja
