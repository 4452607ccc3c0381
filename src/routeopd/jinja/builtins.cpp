// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <unordered_map>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/conversions.h"
#include "routeopd/jinja/filters.h"
#include "routeopd/jinja/operators.h"

namespace routeopd::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // the bound of jinja's sandbox

Value call_range(Evaluator&, Arguments arguments) {
  if (!arguments.named.empty()) throw UserError("range takes no argument by name");
  const auto given = bound("range", arguments, {"start", "stop", "step"}, 1);
  std::array<std::int64_t, 3> bounds{0, 0, 1};
  if (!given[1]) {
    bounds[1] = integer_argument("range", *given[0]);
  } else {
    for (std::size_t i = 0; i < 3; ++i) {
      if (given[i]) bounds[i] = integer_argument("range", *given[i]);
    }
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) throw UserError("range: expected a step, got zero");
  const __int128 distance =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 length = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  if (length > kMaxRange) throw UserError("range: expected at most {} numbers, got more", kMaxRange);
  return std::make_shared<const Range>(Range{start, stop, step, static_cast<std::int64_t>(length)});
}

// dict(pairs or dict, name=value)
std::vector<std::pair<Value, Value>> entries_of(Evaluator& evaluator, std::string_view what,
                                                Arguments arguments) {
  Heap& heap = evaluator.heap();
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1)
    throw UserError("{}: expected at most one positional argument, got more", what);
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional.front();
    if (const Dict* dict = as_dict(source)) {
      entries = dict->entries;
    } else {
      Cursor cursor(heap, source);
      for (Value item; cursor.next(item);) {
        Values pair = items_of(heap, item);
        if (pair.size() != 2) throw UserError("{}: expected pairs, got {} values", what, pair.size());
        entries.emplace_back(std::move(pair[0]), std::move(pair[1]));
        heap.expect_items(static_cast<std::int64_t>(entries.size()));
      }
    }
  }
  for (auto& [name, value] : arguments.named) entries.emplace_back(heap.text(name), std::move(value));
  return entries;
}

Value call_dict(Evaluator& evaluator, Arguments arguments) {
  return evaluator.heap().dict(entries_of(evaluator, "dict", std::move(arguments)));
}

Value call_namespace(Evaluator& evaluator, Arguments arguments) {
  const Value made = call_dict(evaluator, std::move(arguments));
  std::vector<std::pair<std::string, Value>> attributes;
  for (const auto& [key, value] : as_dict(made)->entries) {
    const std::string& name = text_argument("namespace", key).bytes;
    if (name.starts_with('_'))
      throw UserError("namespace: expected names without an underscore in front, got {}", name);
    attributes.emplace_back(name, value);
  }
  return evaluator.make_namespace(std::move(attributes));
}

Value call_raise(Evaluator& evaluator, Arguments arguments) {
  const auto given = bound("raise_exception", arguments, {"message"}, 1);
  throw UserError(str(evaluator.heap(), *given[0]));
}

// The time now, in this machine's time zone. Formats that need the zone itself are refused.
Value call_strftime(Evaluator& evaluator, Arguments arguments) {
  const auto given = bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = text_argument("strftime_now", *given[0]).bytes;
  constexpr std::string_view kKnown = "aAbBcdDeFHIjmMpSTuUVwWxXyYGhnRtrCg%";
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    if (++i == format.size() || kKnown.find(format[i]) == std::string_view::npos)
      throw UserError("strftime_now: %{} is not supported", i < format.size() ? format.substr(i, 1) : "");
  }
  constexpr std::size_t kMaxFormat = 256;
  if (format.size() > kMaxFormat)
    throw UserError("strftime_now: expected at most {} bytes of format, got {}", kMaxFormat, format.size());
  if (format.empty()) return evaluator.heap().text("");
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 128 * kMaxFormat> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &parts);
  std::string written(text.data(), size);
  if (!is_utf8(written))
    throw UserError("strftime_now: expected UTF-8 from this machine's locale, got other bytes");
  return evaluator.heap().text(std::move(written));
}

Value cycler_of(Evaluator& evaluator, Values items, bool joiner) {
  Heap& heap = evaluator.heap();
  const int nesting = nesting_of(heap.list(items));
  const auto bytes = static_cast<std::int64_t>(256 + items.size() * sizeof(Value));
  return std::make_shared<Cycler>(Cycler{std::move(items), 0, joiner, nesting, Charge(heap, bytes)});
}

Value call_cycler(Evaluator& evaluator, Arguments arguments) {
  if (arguments.positional.empty() || !arguments.named.empty())
    throw UserError("cycler: expected items to cycle through, got none");
  return cycler_of(evaluator, std::move(arguments.positional), false);
}

Value make_joiner(Evaluator& evaluator, Arguments arguments) {
  auto given = bound("joiner", arguments, {"sep"});
  return cycler_of(evaluator, {given[0] ? *given[0] : evaluator.heap().text(", ")}, true);
}

// value % divisor == wanted; the operator refuses texts.
bool has_remainder(Evaluator& evaluator, const Value& value, const Value& divisor, std::int64_t wanted) {
  if (as_text(value) != nullptr) throw UserError("expected a number to test, got a text");
  return equal(evaluator.heap(), binary(evaluator, "%", value, divisor), wanted);
}

template <bool (*kHolds)(const Value&)>
bool plain(Evaluator&, const Value& value, Arguments& arguments) {
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
// Whether Python has len() and __getitem__ for it, which an undefined value has.
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
bool test_case(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("test", arguments, {});
  const std::string text = str(evaluator.heap(), value);
  evaluator.heap().spend_bytes(text.size());
  return kUpperCase ? python::is_upper_text(text) : python::is_lower_text(text);
}

bool test_odd(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("odd", arguments, {});
  return has_remainder(evaluator, value, std::int64_t{2}, 1);
}
bool test_even(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("even", arguments, {});
  return has_remainder(evaluator, value, std::int64_t{2}, 0);
}
bool test_divisibleby(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("divisibleby", arguments, {"num"}, 1);
  return has_remainder(evaluator, value, *given[0], 0);
}

// Python's `is`: the same object. Small values are the same if equal and of one type.
bool test_sameas(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("sameas", arguments, {"other"}, 1);
  const Value& other = *given[0];
  if (value.index() != other.index()) return false;
  const bool small =
      is_none(value) || get_if<bool>(value) != nullptr || get_if<std::int64_t>(value) != nullptr;
  if (small) return equal(evaluator.heap(), value, other);
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

bool test_in(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("in", arguments, {"seq"}, 1);
  return contains(evaluator.heap(), *given[0], value);
}

template <char kFirst, char kSecond>
bool test_compare(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("test", arguments, {"other"}, 1);
  constexpr char kName[] = {kFirst, kSecond, '\0'};
  return compare(evaluator.heap(), kName, value, *given[0]);
}

bool test_filter(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("filter", arguments, {});
  const std::string name = str(evaluator.heap(), value);
  constexpr std::array<std::string_view, 9> kRefused{"filesizeformat", "groupby",   "pprint",
                                                     "random",         "striptags", "urlencode",
                                                     "urlize",         "wordwrap",  "xmlattr"};
  if (std::find(kRefused.begin(), kRefused.end(), name) != kRefused.end())
    throw UserError("filter {} is not supported", name);
  return is_filter(name);
}
bool test_test(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("test", arguments, {});
  return is_test(str(evaluator.heap(), value));
}

}  // namespace

Value call_joiner(Cycler& joiner, Heap& heap) {
  if (joiner.at == 0) {
    joiner.at = 1;
    return heap.text("");
  }
  return joiner.items[0];
}

std::optional<Value> global(Heap& heap, std::string_view name) {
  struct Named {
    std::string_view name;
    Value (*call)(Evaluator&, Arguments);
  };
  constexpr std::array<Named, 7> kGlobals{{
      {"range", call_range},
      {"dict", call_dict},
      {"namespace", call_namespace},
      {"raise_exception", call_raise},
      {"strftime_now", call_strftime},
      {"cycler", call_cycler},
      {"joiner", make_joiner},
  }};
  for (const Named& each : kGlobals) {
    if (each.name == name) return heap.function(std::string(name), 0, each.call);
  }
  if (name == "lipsum" || name == "self" || name == "super") throw UserError("{} is not supported", name);
  return std::nullopt;
}

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
