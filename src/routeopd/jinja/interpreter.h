// Renders a syntax tree: statements, scopes and macros. One interpreter renders once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "routeopd/jinja/evaluator.h"

namespace routeopd::jinja {

class Interpreter : public Evaluator {
 public:
  explicit Interpreter(const Limits& limits = {}) : Evaluator(limits) {}
  ~Interpreter();

  // The text; throws UserError("chat template, line N: …").
  std::string render(const Template& source);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Within;

  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow run_for(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_set_block(const Statement& statement);
  Flow run_with(const Statement& statement);
  Flow run_filter(const Statement& statement);
  void run_call(const Statement& statement);
  // Runs the statement's body and puts its output into `text`.
  Flow run_captured(const Statement& statement, std::string& text);

  Value macro(const Statement& statement, std::string name);
  Value call_macro(const Statement& statement, const std::string& name, const ScopePtr& scope,
                   Arguments arguments);
  void assign(const Target& target, const Value& value);
  void set(std::string_view name, Value value) { scope_->values.insert_or_assign(name, std::move(value)); }
  void hide(const std::vector<std::string>& names);
  void emit(std::string_view text);

  std::string* out_ = nullptr;
  std::int64_t pending_ = 0;  // bytes in all texts being written
  // Scopes of macros. A macro holds its scope, which may hold the macro or a long chain of others: emptied
  // one by one at the end, so that freeing them neither leaks nor recurses.
  std::vector<std::pair<ScopePtr, Charge>> macro_scopes_;
};

}  // namespace routeopd::jinja
