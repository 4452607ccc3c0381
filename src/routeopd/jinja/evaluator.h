// Evaluates expressions: names, operators, attributes, calls, filters and tests. Statements are the
// interpreter's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "routeopd/jinja/heap.h"
#include "routeopd/jinja/syntax.h"

namespace routeopd::jinja {

class Evaluator {
 public:
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Heap& heap() { return heap_; }

  // Gives the template a variable.
  void define(std::string name, Value value) {
    variables_.insert_or_assign(std::move(name), std::move(value));
  }

  // What filters, tests and functions need.
  Value call(const Value& function, Arguments arguments);
  Value apply_filter(std::string_view name, const Value& value, Arguments arguments);
  bool apply_test(std::string_view name, const Value& value, Arguments arguments);
  Value make_namespace(std::vector<std::pair<std::string, Value>> attributes);

 protected:
  struct Scope {
    std::shared_ptr<Scope> outer;
    std::unordered_map<std::string_view, Value> values;
  };
  using ScopePtr = std::shared_ptr<Scope>;

  explicit Evaluator(const Limits& limits) : heap_(limits) {}
  ~Evaluator();

  Value evaluate(const Expression& expression);
  Value evaluate_name(const std::string& name);
  // A chain of filters; `body`, if not null, is the text of a filter block, which the innermost filter takes.
  Value evaluate_filter(const Expression& expression, const Value* body);
  Arguments evaluate_arguments(const CallArguments& arguments);
  // Counts one more nested operation; throws UserError at the bound.
  void enter_operation();

  Heap heap_;  // first: every value below counts against it
  std::map<std::string, Value, std::less<>> variables_;
  ScopePtr scope_;
  int depth_ = 0;
  int line_ = 1;  // of the operation that runs: errors name it

 private:
  Value evaluate_kind(const Expression& expression);
  Value evaluate_list(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Value evaluate_comparison(const Expression& expression);
  Value evaluate_concatenation(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_call(const Expression& expression);
  Value evaluate_test(const Expression& expression);

  std::vector<NamespacePtr> namespaces_;  // may hold themselves: emptied at the end
};

}  // namespace routeopd::jinja
