// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/methods.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "routeopd/base/error.h"
#include "routeopd/jinja/filters.h"
#include "routeopd/jinja/operators.h"
#include "routeopd/jinja/text_methods.h"

namespace routeopd::jinja {
namespace {

template <class Names>
bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What Python's types have and this does not support.
constexpr std::array<std::string_view, 6> kOtherTextMethods{"casefold",     "encode",    "expandtabs",
                                                            "isidentifier", "maketrans", "translate"};
constexpr std::array<std::string_view, 9> kIntegerAttributes{
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "imag",      "numerator",  "real"};
constexpr std::array<std::string_view, 7> kFloatAttributes{
    "as_integer_ratio", "conjugate", "fromhex", "hex", "imag", "is_integer", "real"};
constexpr std::array<std::string_view, 8> kListChanges{"append", "clear", "pop",    "reverse",
                                                       "insert", "sort",  "extend", "remove"};
constexpr std::array<std::string_view, 5> kDictChanges{"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 3> kMacroAttributes{"catch_kwargs", "catch_varargs", "caller"};
constexpr std::array<std::string_view, 5> kRangeAttributes{"start", "stop", "step", "index", "count"};
constexpr std::array<std::string_view, 3> kGeneratorMethods{"send", "throw", "close"};

Value bound_method(Heap& heap, const Value& self, const NamedFilter& method) {
  return heap.function(std::string(method.name), nesting_of(self),
                       [self, run = method.run](Evaluator& evaluator, Arguments arguments) {
                         return run(evaluator, self, arguments);
                       });
}

std::optional<Value> method_of(Heap& heap, const Value& self, std::span<const NamedFilter> methods,
                               std::string_view name) {
  for (const NamedFilter& method : methods) {
    if (method.name == name) return bound_method(heap, self, method);
  }
  return std::nullopt;
}

// What the sandbox returns for what it forbids: an undefined value, whose use is an error with this reason.
Value forbidden(const Value& object, std::string_view name) {
  return undefined(fmt::format("access to attribute '{}' of a {} is unsafe", name, type_name(object)));
}

void expect_no_names(std::string_view what, const Arguments& arguments) {
  if (!arguments.named.empty())
    throw UserError("{} takes no argument by name, got {}", what, arguments.named[0].first);
}

Value dict_get(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  expect_no_names("get", arguments);
  const auto given = bound("get", arguments, {"key", "default"}, 1);
  if (const Text* text = as_text(*given[0])) evaluator.heap().spend_bytes(text->bytes.size());
  if (const Value* found = find(*as_dict(self), *given[0])) return *found;
  return given[1] ? *given[1] : Value(None{});
}

template <Sequence::Form kForm>
Value dict_view(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  bound("view", arguments, {});
  Values items;
  for (const auto& [key, value] : as_dict(self)->entries) {
    if constexpr (kForm == Sequence::Form::kDictKeys) {
      items.push_back(key);
    } else if constexpr (kForm == Sequence::Form::kDictValues) {
      items.push_back(value);
    } else {
      items.push_back(evaluator.heap().tuple({key, value}));
    }
  }
  return evaluator.heap().sequence(kForm, std::move(items));
}

Value copied(Evaluator&, const Value& self, Arguments& arguments) {
  bound("copy", arguments, {});
  return self;
}

Value list_index(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  expect_no_names("index", arguments);
  const auto given = bound("index", arguments, {"value"}, 1);
  const Values& items = as_list(self)->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(evaluator.heap(), items[i], *given[0])) return static_cast<std::int64_t>(i);
  }
  throw UserError("index: expected a value of the list, got another");
}

Value list_count(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  expect_no_names("count", arguments);
  const auto given = bound("count", arguments, {"value"}, 1);
  const Values& items = as_list(self)->items;
  return static_cast<std::int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(evaluator.heap(), item, *given[0]);
  }));
}

constexpr std::array<NamedFilter, 5> kDictMethods{{
    {"get", dict_get},
    {"items", dict_view<Sequence::Form::kDictItems>},
    {"keys", dict_view<Sequence::Form::kDictKeys>},
    {"values", dict_view<Sequence::Form::kDictValues>},
    {"copy", copied},
}};
constexpr std::array<NamedFilter, 3> kListMethods{
    {{"index", list_index}, {"count", list_count}, {"copy", copied}}};

[[noreturn]] void refuse(const Value& object, std::string_view name) {
  throw UserError("{} of a {} is not supported", name, type_name(object));
}

std::optional<Value> text_attribute(Heap& heap, const Value& object, std::string_view name) {
  if (as_text(object)->markup) {
    // Other methods of an escaped text escape their arguments.
    constexpr std::array<std::string_view, 7> kPlain{"upper", "lower",  "title", "capitalize",
                                                     "strip", "lstrip", "rstrip"};
    if (!has(kPlain, name))
      throw UserError("{} of an escaped text is not supported; try ~ to unmark it", name);
  }
  if (has(kOtherTextMethods, name)) refuse(object, name);
  return method_of(heap, object, text_methods(), name);
}

std::optional<Value> list_attribute(Heap& heap, const Value& object, std::string_view name) {
  const bool is_tuple = as_list(object)->form == Sequence::Form::kTuple;
  if (!is_tuple && has(kListChanges, name)) return forbidden(object, name);
  if (is_tuple && name == "copy") return std::nullopt;
  return method_of(heap, object, kListMethods, name);
}

// loop.NAME; undefined where jinja has none.
Value loop_attribute(Heap& heap, const LoopPtr& loop, std::string_view name) {
  if (loop->ended) throw UserError("loop is not supported after the end of its loop");
  if (name == "index") return loop->index0 + 1;
  if (name == "index0") return loop->index0;
  if (name == "first") return loop->index0 == 0;
  if (name == "last") return !loop->peek();
  if (name == "length") return loop->length();
  if (name == "revindex") return loop->length() - loop->index0;
  if (name == "revindex0") return loop->length() - loop->index0 - 1;
  if (name == "depth") return loop->depth0 + 1;
  if (name == "depth0") return loop->depth0;
  if (name == "previtem") return loop->index0 == 0 ? undefined("there is no previous item") : loop->before;
  if (name == "nextitem") return loop->peek() ? loop->ahead.front() : undefined("there is no next item");
  if (name == "cycle") {
    return heap.function("cycle", 0, [loop](Evaluator&, Arguments arguments) {
      if (arguments.positional.empty() || !arguments.named.empty())
        throw UserError("loop.cycle: expected items to cycle through, got none");
      const auto size = static_cast<std::int64_t>(arguments.positional.size());
      return arguments.positional[static_cast<std::size_t>(loop->index0 % size)];
    });
  }
  if (name == "changed") {
    return heap.function("changed", 0, [loop, &heap](Evaluator&, Arguments arguments) -> Value {
      if (loop->ended) throw UserError("loop.changed is not supported after the end of its loop");
      bool same = loop->last_changed && loop->last_changed->size() == arguments.positional.size();
      for (std::size_t i = 0; same && i < arguments.positional.size(); ++i)
        same = equal(heap, (*loop->last_changed)[i], arguments.positional[i]);
      if (!same) loop->last_changed = std::move(arguments.positional);
      return !same;
    });
  }
  return undefined(fmt::format("loop has no attribute {}", name));
}

std::optional<Value> cycler_attribute(Heap& heap, const CyclerPtr& cycler, std::string_view name) {
  if (cycler->joiner) return std::nullopt;
  if (name == "current") return cycler->items[cycler->at];
  if (name == "next") {
    return heap.function("next", cycler->nesting, [cycler](Evaluator&, Arguments arguments) {
      bound("next", arguments, {});
      Value item = cycler->items[cycler->at];
      cycler->at = (cycler->at + 1) % cycler->items.size();
      return item;
    });
  }
  if (name == "reset") {
    return heap.function("reset", cycler->nesting, [cycler](Evaluator&, Arguments arguments) -> Value {
      bound("reset", arguments, {});
      cycler->at = 0;
      return None{};
    });
  }
  return std::nullopt;
}

std::optional<Value> macro_attribute(Heap& heap, const Callable& macro, const Value& object,
                                     std::string_view name) {
  if (!macro.is_macro) return std::nullopt;
  if (name == "name") return heap.text(macro.name);
  if (name == "arguments") {
    Values names;
    for (const std::string& parameter : macro.parameters) names.push_back(heap.text(parameter));
    return heap.tuple(std::move(names));
  }
  if (has(kMacroAttributes, name)) refuse(object, name);
  return std::nullopt;
}

std::optional<Value> namespace_attribute(const Namespace& space, std::string_view name) {
  for (const auto& [known, value] : space.attributes) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> python_attribute(Heap& heap, const Value& object, std::string_view name) {
  // Every Python object has such names; the sandbox hides them.
  if (name.starts_with("__") && name.ends_with("__")) return forbidden(object, name);
  if (as_text(object) != nullptr) return text_attribute(heap, object, name);
  if (as_dict(object) != nullptr) {
    if (has(kDictChanges, name)) return forbidden(object, name);
    if (name == "fromkeys") refuse(object, name);
    return method_of(heap, object, kDictMethods, name);
  }
  if (as_list(object) != nullptr) return list_attribute(heap, object, name);
  if (const auto* loop = get_if<LoopPtr>(object)) return loop_attribute(heap, *loop, name);
  if (const auto* space = get_if<NamespacePtr>(object)) {
    heap.spend(1 + static_cast<std::int64_t>((*space)->attributes.size() / 4));
    return namespace_attribute(**space, name);
  }
  if (const auto* cycler = get_if<CyclerPtr>(object)) return cycler_attribute(heap, *cycler, name);
  if (const auto* callable = get_if<CallablePtr>(object))
    return macro_attribute(heap, **callable, object, name);
  const bool exists = (as_integer(object) && has(kIntegerAttributes, name)) ||
                      (get_if<double>(object) != nullptr && has(kFloatAttributes, name)) ||
                      (get_if<RangePtr>(object) != nullptr && has(kRangeAttributes, name)) ||
                      (get_if<IteratorPtr>(object) != nullptr && has(kGeneratorMethods, name)) ||
                      (get_if<SequencePtr>(object) != nullptr && (name == "mapping" || name == "isdisjoint"));
  if (exists) refuse(object, name);
  return std::nullopt;
}

std::optional<Value> element(Heap& heap, const Value& object, std::int64_t index) {
  const bool is_indexed =
      as_text(object) != nullptr || as_list(object) != nullptr || get_if<RangePtr>(object) != nullptr;
  if (!is_indexed) return std::nullopt;
  const std::int64_t length = length_of(object);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  if (const Sequence* list = as_list(object)) return list->items[static_cast<std::size_t>(index)];
  if (const auto* range = get_if<RangePtr>(object)) return (*range)->start + index * (*range)->step;
  const Text& text = *as_text(object);
  if (text.length == static_cast<std::int64_t>(text.bytes.size()))
    return heap.text(std::string(1, text.bytes[static_cast<std::size_t>(index)]), text.markup);
  return slice(heap, object, index, index + 1, None{});
}

Value get_attribute(Heap& heap, const Value& object, std::string_view name) {
  if (is_undefined(object)) fail_undefined(object);
  if (auto found = python_attribute(heap, object, name)) return *std::move(found);
  if (const Dict* dict = as_dict(object)) {
    heap.spend_bytes(name.size());
    if (const Value* value = find(*dict, name)) return *value;
  }
  return undefined(fmt::format("{} has no attribute '{}'", type_name(object), name));
}

Value get_item(Heap& heap, const Value& object, const Value& key) {
  if (is_undefined(object)) fail_undefined(object);
  const Text* name = as_text(key);
  if (name != nullptr) heap.spend_bytes(name->bytes.size());
  if (const Dict* dict = as_dict(object)) {
    // What cannot be a key, such as a list, gives an undefined value: jinja catches Python's TypeError.
    const bool hashable = get_if<SequencePtr>(key) == nullptr || as_list(key) != nullptr;
    const Sequence* list = as_list(key);
    const bool is_list = list != nullptr && list->form == Sequence::Form::kList;
    if (hashable && !is_list && as_dict(key) == nullptr && get_if<RangePtr>(key) == nullptr) {
      if (const Value* value = find(*dict, key)) return *value;
    }
  } else if (const auto number = as_integer(key)) {
    if (auto found = element(heap, object, *number)) return *std::move(found);
  }
  if (name != nullptr) {
    if (auto found = python_attribute(heap, object, name->bytes)) return *std::move(found);
    return undefined(fmt::format("{} has no attribute '{}'", type_name(object), name->bytes));
  }
  return undefined(fmt::format("{} has no such element", type_name(object)));
}

}  // namespace routeopd::jinja
