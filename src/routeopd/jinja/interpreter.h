// Renders a syntax tree. One interpreter renders once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "routeopd/jinja/heap.h"
#include "routeopd/jinja/syntax.h"

namespace routeopd::jinja {

class Interpreter {
 public:
  explicit Interpreter(const Limits& limits = {}) : heap_(limits) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Heap& heap() { return heap_; }

  // Gives the template a variable.
  void define(std::string name, Value value) {
    variables_.insert_or_assign(std::move(name), std::move(value));
  }

  // The text; throws UserError("chat template, line N: …").
  std::string render(const Template& source);

  // What the filters and methods are made of.
  Value attribute(const Value& object, std::string_view name);  // object.name
  Value item(const Value& object, const Value& key);            // object[key]
  Value call(const Value& function, Arguments arguments);
  Value apply_filter(std::string_view name, const Value& value, Arguments arguments);
  bool apply_test(std::string_view name, const Value& value, Arguments arguments);
  Value make_namespace(std::vector<std::pair<std::string, Value>> attributes);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  struct Scope {
    std::shared_ptr<Scope> outer;
    std::unordered_map<std::string_view, Value> values;
  };
  using ScopePtr = std::shared_ptr<Scope>;
  class Within;

  Value evaluate(const Expression& expression);
  Value evaluate_kind(const Expression& expression);
  Value evaluate_name(const std::string& name);
  Value evaluate_list(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Value evaluate_comparison(const Expression& expression);
  Value evaluate_concatenation(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_call(const Expression& expression);
  Value evaluate_filter(const Expression& expression, const Value* body);
  Value evaluate_test(const Expression& expression);
  Arguments evaluate_arguments(const CallArguments& arguments);

  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow run_for(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_set_block(const Statement& statement);
  Flow run_with(const Statement& statement);
  Flow run_filter(const Statement& statement);
  void run_call(const Statement& statement);
  // The block's text, not printed.
  Flow captured(const Statement& statement, std::string& text);

  Value macro(const Statement& statement, std::string name);
  Value call_macro(const Statement& statement, const std::string& name, const ScopePtr& scope,
                   Arguments arguments);
  void assign(const Target& target, const Value& value);
  void set(std::string_view name, Value value) { scope_->values.insert_or_assign(name, std::move(value)); }
  void hide(const std::vector<std::string>& names);
  void emit(std::string_view text);

  Heap heap_;  // first: every value below counts against it
  std::map<std::string, Value, std::less<>> variables_;
  ScopePtr scope_;
  std::string* out_ = nullptr;
  std::int64_t pending_ = 0;  // bytes in all texts that are being written
  int depth_ = 0;
  int line_ = 1;
  // Macros and callers hold a scope that may hold them, or a chain of others, and namespaces may hold themselves:
  // emptied one by one at the end.
  std::vector<std::pair<ScopePtr, Charge>> captured_;
  std::vector<NamespacePtr> namespaces_;
};

}  // namespace routeopd::jinja
