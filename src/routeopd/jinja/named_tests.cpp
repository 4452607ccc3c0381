//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/named_tests.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/jinja/filters.h"
#include "routeopd/jinja/operators.h"
#include "routeopd/jinja/printing.h"

namespace routeopd::jinja {
namespace {

// value % divisor == wanted; texts are refused by the operator.
bool has_remainder(Interpreter& interpreter, const Value& value, const Value& divisor, std::int64_t wanted) {
  if (as_text(value) != nullptr) throw UserError("expected a number to test, got a text");
  return equal(interpreter.heap(), binary(interpreter, "%", value, divisor), wanted);
}

template <bool (*kHolds)(const Value&)>
bool plain(Interpreter&, const Value& value, Arguments& arguments) {
  bound("test", arguments, {});
  return kHolds(value);
}

bool is_defined(const Value& value) {
  return !is_undefined(value);
}
bool is_boolean(const Value& value) {
  return get_if<bool>(value) != nullptr;
}
bool is_true(const Value& value) {
  return is_boolean(value) && truth(value);
}
bool is_false(const Value& value) {
  return is_boolean(value) && !truth(value);
}
bool is_integer(const Value& value) {
  return get_if<std::int64_t>(value) != nullptr;
}
bool is_float(const Value& value) {
  return get_if<double>(value) != nullptr;
}
bool is_number(const Value& value) {
  return as_number(value).has_value();
}
bool is_string(const Value& value) {
  return as_text(value) != nullptr;
}
bool is_mapping(const Value& value) {
  return as_dict(value) != nullptr;
}
// len() and __getitem__: an undefined value has both.
bool is_sequence(const Value& value) {
  return is_undefined(value) || as_text(value) != nullptr || as_list(value) != nullptr ||
         as_dict(value) != nullptr || get_if<RangePtr>(value) != nullptr;
}
bool is_callable(const Value& value) {
  const auto* cycler = get_if<CyclerPtr>(value);
  return is_undefined(value) || get_if<CallablePtr>(value) != nullptr || get_if<LoopPtr>(value) != nullptr ||
         (cycler != nullptr && (*cycler)->joiner);
}
bool is_escaped(const Value& value) {
  const Text* text = as_text(value);
  return text != nullptr && text->markup;
}

template <bool kUpperCase>
bool test_case(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("test", arguments, {});
  const std::string text = str(interpreter.heap(), value);
  interpreter.heap().spend_bytes(text.size());
  return kUpperCase ? python::is_upper_text(text) : python::is_lower_text(text);
}

bool test_odd(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("odd", arguments, {});
  return has_remainder(interpreter, value, std::int64_t{2}, 1);
}
bool test_even(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("even", arguments, {});
  return has_remainder(interpreter, value, std::int64_t{2}, 0);
}
bool test_divisibleby(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("divisibleby", arguments, {"num"}, 1);
  return has_remainder(interpreter, value, *given[0], 0);
}

// `is`: the same object. Small values are the same when they are equal and of one type.
bool test_sameas(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("sameas", arguments, {"other"}, 1);
  const Value& other = *given[0];
  if (value.index() != other.index()) return false;
  const bool small =
      is_none(value) || get_if<bool>(value) != nullptr || get_if<std::int64_t>(value) != nullptr;
  if (small) return equal(interpreter.heap(), value, other);
  const bool shared = as_dict(value) != nullptr || get_if<SequencePtr>(value) != nullptr ||
                      get_if<NamespacePtr>(value) != nullptr;
  if (!shared) throw UserError("sameas of {} is not supported; try ==", type_name(value));
  return std::visit(
      [&]<class T>(const T& each) {
        if constexpr (requires { each.get(); }) {
          return each.get() == std::get<T>(other).get();
        } else {
          return false;
        }
      },
      value);
}

bool test_in(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("in", arguments, {"seq"}, 1);
  return contains(interpreter.heap(), *given[0], value);
}

template <char kFirst, char kSecond>
bool test_compare(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("test", arguments, {"other"}, 1);
  constexpr char kName[] = {kFirst, kSecond, '\0'};
  return compare(interpreter.heap(), kName, value, *given[0]);
}

bool test_filter(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("filter", arguments, {});
  const std::string name = str(interpreter.heap(), value);
  constexpr std::array<std::string_view, 9> kRefused{"filesizeformat", "groupby",   "pprint",
                                                     "random",         "striptags", "urlencode",
                                                     "urlize",         "wordwrap",  "xmlattr"};
  if (std::find(kRefused.begin(), kRefused.end(), name) != kRefused.end())
    throw UserError("filter {} is not supported", name);
  return is_filter(name);
}
bool test_test(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("test", arguments, {});
  return is_test(str(interpreter.heap(), value));
}

}  // namespace

TestFunction* find_test(std::string_view name) {
  static const auto* const table = new std::unordered_map<std::string_view, TestFunction*>{
      {"defined", plain<is_defined>},
      {"undefined", plain<is_undefined>},
      {"none", plain<is_none>},
      {"boolean", plain<is_boolean>},
      {"true", plain<is_true>},
      {"false", plain<is_false>},
      {"integer", plain<is_integer>},
      {"float", plain<is_float>},
      {"number", plain<is_number>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"iterable", plain<is_iterable>},
      {"sequence", plain<is_sequence>},
      {"callable", plain<is_callable>},
      {"escaped", plain<is_escaped>},
      {"upper", test_case<true>},
      {"lower", test_case<false>},
      {"odd", test_odd},
      {"even", test_even},
      {"divisibleby", test_divisibleby},
      {"sameas", test_sameas},
      {"in", test_in},
      {"filter", test_filter},
      {"test", test_test},
      {"eq", test_compare<'=', '='>},
      {"equalto", test_compare<'=', '='>},
      {"==", test_compare<'=', '='>},
      {"ne", test_compare<'!', '='>},
      {"!=", test_compare<'!', '='>},
      {"lt", test_compare<'<', '\0'>},
      {"lessthan", test_compare<'<', '\0'>},
      {"<", test_compare<'<', '\0'>},
      {"le", test_compare<'<', '='>},
      {"<=", test_compare<'<', '='>},
      {"gt", test_compare<'>', '\0'>},
      {"greaterthan", test_compare<'>', '\0'>},
      {">", test_compare<'>', '\0'>},
      {"ge", test_compare<'>', '='>},
      {">=", test_compare<'>', '='>},
  };
  const auto found = table->find(name);
  return found == table->end() ? nullptr : found->second;
}

}  // namespace routeopd::jinja
