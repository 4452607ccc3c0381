// The syntax tree of a template. The kind of an expression or a statement says which of its fields are used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/jinja/value.h"

namespace routeopd::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;
using ExpressionList = std::vector<ExpressionPtr>;

// f(a, b, name=c, *list, **dict)
struct CallArguments {
  ExpressionList positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;
  ExpressionPtr spread_named;
};

enum class ExpressionKind {
  kConstant,     // constant
  kName,         // name
  kList,         // parts
  kTuple,        // parts
  kDict,         // parts: key, value, key, value, …
  kConditional,  // parts: value, condition, otherwise (may be null)
  kOr,           // parts: left, right
  kAnd,          // parts: left, right
  kNot,          // parts: operand
  kCompare,      // parts: operands; operators between them
  kConcat,       // parts: what ~ joins
  kBinary,       // name: + - * / // % **; parts: left, right
  kNegate,       // parts: operand
  kPlus,         // parts: operand
  kAttribute,    // parts: object; name
  kItem,         // parts: object, key
  kSlice,        // parts: object, start, stop, step (each may be null)
  kCall,         // parts: function; arguments
  kFilter,       // parts: value (null in a filter block); name; arguments
  kTest,         // parts: value; name; arguments
};

struct Expression {
  ExpressionKind kind;
  int line;
  int depth = 1;  // of this subtree
  std::string name;
  Value constant;
  ExpressionList parts;
  std::vector<std::string> operators;
  CallArguments arguments;
};

// What a loop or a set assigns to: a name, an attribute of a namespace, or a tuple of those.
struct Target {
  std::string name;
  std::string attribute;  // of the namespace `name`
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // null where there is no default
};

enum class StatementKind {
  kText,      // text
  kPrint,     // values, each printed
  kFor,       // target, value: the iterable, condition: of `for … if`, body, otherwise
  kIf,        // branches, otherwise
  kSet,       // target, value
  kSetBlock,  // target, value: a chain of filters or null, body
  kWith,      // bindings, body
  kMacro,     // text: its name, parameters, body
  kCall,      // value: the call, parameters: of its caller, body
  kFilter,    // value: a chain of filters, body
  kScope,     // body, printed as it is: {% generation %}
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind;
  int line;
  std::string text;
  ExpressionList values;
  ExpressionPtr value;
  ExpressionPtr condition;
  Target target;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  std::vector<Parameter> parameters;
  Block body;
  Block otherwise;
  // Which of a macro's extra arguments its body mentions.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  // Names of a body that are unknown until it sets them, whatever they are outside (see hide_names).
  std::vector<std::string> hidden;
  std::vector<std::string> hidden_otherwise;
};

struct Template {
  Block body;
  std::vector<std::string> hidden;
};

// Fills `hidden` and `hidden_otherwise` of the template and of every statement. jinja decides at compile time
// where a name lives: a name that a body sets unconditionally (not under an if), and that neither an earlier
// expression of the body nor an outer scope mentions, is undefined in the whole body until it is set, even
// when the template has a variable of that name.
void hide_names(Template& source);

}  // namespace routeopd::jinja
