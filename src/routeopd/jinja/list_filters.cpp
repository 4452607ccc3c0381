// The filters of lists, dicts and generators. Those that are generators in jinja are so here: nothing is computed before
// it is asked for, they are true even when they are empty, and they give each item once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <unordered_set>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/jinja/attribute_path.h"
#include "routeopd/jinja/filters.h"
#include "routeopd/jinja/methods.h"
#include "routeopd/jinja/operators.h"
#include "routeopd/jinja/printing.h"

namespace routeopd::jinja {
namespace {

bool flag(const std::optional<Value>& given) {
  return given && truth(*given);
}

Value or_none(const std::optional<Value>& given) {
  return given ? *given : Value(None{});
}

Value folded(Heap& heap, const Value& value, bool case_sensitive) {
  const Text* text = as_text(value);
  if (case_sensitive || text == nullptr) return value;
  return heap.text(python::to_lower(text->bytes));
}

// Sorts by keys of the same places.
Value sorted(Heap& heap, const Values& items, const Values& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? less(heap, keys[b], keys[a]) : less(heap, keys[a], keys[b]);
  });
  Values result;
  result.reserve(items.size());
  for (const std::size_t at : order) result.push_back(items[at]);
  return heap.list(std::move(result));
}

Value filter_list(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("list", arguments, {});
  return interpreter.heap().list(items_of(interpreter.heap(), value));
}

Value filter_join(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  Heap& heap = interpreter.heap();
  const auto given = bound("join", arguments, {"d", "attribute"});
  const std::string between = given[0] ? str(heap, *given[0]) : "";
  const AttributePath path(heap, or_none(given[1]));
  TextBuilder out(heap);
  Cursor cursor(heap, value);
  bool first = true;
  for (Value item; cursor.next(item); first = false) {
    if (!first) out.add(between);
    out.add(str(heap, path.of(interpreter, item)));
  }
  return heap.text(std::move(out.text()));
}

Value filter_first(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("first", arguments, {});
  Cursor cursor(interpreter.heap(), value);
  Value item;
  return cursor.next(item) ? item : undefined("No first item, sequence was empty.");
}

bool is_reversible(const Value& value) {
  return get_if<IteratorPtr>(value) == nullptr && is_iterable(value);
}

Value filter_last(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("last", arguments, {});
  if (!is_reversible(value))
    throw UserError("last: expected a list, got {}; try the filter list", type_name(value));
  const Values items = items_of(interpreter.heap(), value);
  return items.empty() ? undefined("No last item, sequence was empty.") : items.back();
}

Value generator_over(Heap& heap, const char* type, Values items) {
  const Value list = heap.list(std::move(items));
  auto cursor = std::make_shared<Cursor>(heap, list);
  return heap.iterator(type, nesting_of(list), [cursor](Value& item) { return cursor->next(item); });
}

Value filter_reverse(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("reverse", arguments, {});
  Heap& heap = interpreter.heap();
  if (as_text(value) != nullptr) return slice(heap, value, None{}, None{}, std::int64_t{-1});
  Values items = items_of(heap, value);
  std::reverse(items.begin(), items.end());
  if (get_if<IteratorPtr>(value) != nullptr) return heap.list(std::move(items));
  return generator_over(heap, "reversed", std::move(items));
}

Value filter_items(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  bound("items", arguments, {});
  Heap& heap = interpreter.heap();
  auto at = std::make_shared<std::size_t>(0);
  return heap.iterator("generator", nesting_of(value), [&heap, value, at](Value& item) {
    if (is_undefined(value)) return false;
    const Dict* dict = as_dict(value);
    if (dict == nullptr) throw UserError("items: expected a dict, got {}", type_name(value));
    if (*at == dict->entries.size()) return false;
    const auto& [key, held] = dict->entries[(*at)++];
    item = heap.tuple({key, held});
    return true;
  });
}

// A generator that passes on what `step` makes of each item; false leaves it out. `missing`, if it is not null, is the
// error of arguments that are not there: like jinja, it looks at them when the first item is asked for of a value that
// is true.
Value transforming(Interpreter& interpreter, const Value& value, int nesting, const char* missing,
                   std::function<bool(Value& item)> step) {
  Heap& heap = interpreter.heap();
  auto cursor = std::make_shared<std::optional<Cursor>>();
  return heap.iterator("generator", std::max(nesting, nesting_of(value)),
                       [&heap, value, cursor, missing, step = std::move(step)](Value& item) {
                         if (!truth(value)) return false;
                         if (missing != nullptr) throw UserError("{}", missing);
                         if (!*cursor) cursor->emplace(heap, value);
                         while ((*cursor)->next(item)) {
                           if (step(item)) return true;
                         }
                         return false;
                       });
}

int nesting_of_all(const Arguments& arguments) {
  int nesting = 0;
  for (const Value& each : arguments.positional) nesting = std::max(nesting, nesting_of(each));
  for (const auto& [name, each] : arguments.named) nesting = std::max(nesting, nesting_of(each));
  return nesting;
}

Value filter_map(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const int nesting = nesting_of_all(arguments);
  const bool by_attribute =
      arguments.positional.empty() && std::any_of(arguments.named.begin(), arguments.named.end(),
                                                  [](const auto& each) { return each.first == "attribute"; });
  if (by_attribute) {
    const auto given = bound("map", arguments, {"attribute", "default"}, 1);
    auto path = std::make_shared<const AttributePath>(interpreter.heap(), *given[0], or_none(given[1]));
    return transforming(interpreter, value, nesting, nullptr, [&interpreter, path](Value& item) {
      item = path->of(interpreter, item);
      return true;
    });
  }
  const char* const missing =
      arguments.positional.empty() ? "map: expected a filter or an attribute, got none" : nullptr;
  return transforming(interpreter, value, nesting, missing, [&interpreter, arguments](Value& item) {
    Arguments rest = arguments;
    const std::string name = text_argument("map", rest.positional.front()).bytes;
    rest.positional.erase(rest.positional.begin());
    item = interpreter.apply_filter(name, item, std::move(rest));
    return true;
  });
}

// select, reject, selectattr, rejectattr: items for which a test, or else their truth, is as wanted.
Value selecting(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool wanted,
                bool by_attribute) {
  const auto step = [&interpreter, arguments, wanted, by_attribute](Value& item) {
    Arguments rest = arguments;
    Value looked_at = item;
    if (by_attribute) {
      looked_at = AttributePath(interpreter.heap(), rest.positional.front()).of(interpreter, item);
      rest.positional.erase(rest.positional.begin());
    }
    if (rest.positional.empty()) return truth(looked_at) == wanted;
    const std::string name = text_argument("select", rest.positional.front()).bytes;
    rest.positional.erase(rest.positional.begin());
    return interpreter.apply_test(name, looked_at, std::move(rest)) == wanted;
  };
  const bool is_nameless = by_attribute && arguments.positional.empty();
  return transforming(interpreter, value, nesting_of_all(arguments),
                      is_nameless ? "expected the name of an attribute, got none" : nullptr, step);
}

Value filter_select(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  return selecting(interpreter, value, arguments, true, false);
}
Value filter_reject(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  return selecting(interpreter, value, arguments, false, false);
}
Value filter_selectattr(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  return selecting(interpreter, value, arguments, true, true);
}
Value filter_rejectattr(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  return selecting(interpreter, value, arguments, false, true);
}

Value filter_unique(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("unique", arguments, {"case_sensitive", "attribute"});
  Heap& heap = interpreter.heap();
  auto path = std::make_shared<const AttributePath>(heap, or_none(given[1]));
  struct Seen {
    std::unordered_set<std::string> keys;
    std::vector<Charge> charges;
  };
  auto seen = std::make_shared<Seen>();
  auto cursor = std::make_shared<Cursor>(heap, value);
  return heap.iterator("generator", nesting_of(value),
                       [&interpreter, path, seen, cursor, exact = flag(given[0])](Value& item) {
                         Heap& in = interpreter.heap();
                         while (cursor->next(item)) {
                           std::string key = key_of(folded(in, path->of(interpreter, item), exact));
                           in.spend_bytes(key.size());
                           seen->charges.emplace_back(in, static_cast<std::int64_t>(64 + key.size()));
                           if (seen->keys.insert(std::move(key)).second) return true;
                         }
                         return false;
                       });
}

Value filter_sort(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Heap& heap = interpreter.heap();
  const std::vector<AttributePath> paths = several_paths(heap, or_none(given[2]));
  const Values items = items_of(heap, value);
  Values keys;
  for (const Value& item : items) {
    Values parts;
    for (const AttributePath& path : paths)
      parts.push_back(folded(heap, path.of(interpreter, item), flag(given[1])));
    keys.push_back(heap.list(std::move(parts)));
  }
  return sorted(heap, items, keys, flag(given[0]));
}

Value filter_dictsort(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  Heap& heap = interpreter.heap();
  const std::string by = given[1] ? str(heap, *given[1]) : "key";
  if (by != "key" && by != "value") throw UserError("dictsort: expected by key or value, got {}", by);
  if (is_undefined(value)) fail_undefined(value);
  const Dict* dict = as_dict(value);
  if (dict == nullptr) throw UserError("dictsort: expected a dict, got {}", type_name(value));
  Values items;
  Values keys;
  for (const auto& [key, held] : dict->entries) {
    items.push_back(heap.tuple({key, held}));
    keys.push_back(folded(heap, by == "key" ? key : held, flag(given[0])));
  }
  return sorted(heap, items, keys, flag(given[2]));
}

Value extreme(Interpreter& interpreter, std::string_view what, const Value& value, Arguments& arguments,
              bool least) {
  const auto given = bound(what, arguments, {"case_sensitive", "attribute"});
  Heap& heap = interpreter.heap();
  const AttributePath path(heap, or_none(given[1]));
  Value best = undefined("No aggregated item, sequence was empty.");
  std::optional<Value> best_key;
  Cursor cursor(heap, value);
  for (Value item; cursor.next(item);) {
    Value key = folded(heap, path.of(interpreter, item), flag(given[0]));
    if (best_key && !(least ? less(heap, key, *best_key) : less(heap, *best_key, key))) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value filter_min(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  return extreme(interpreter, "min", value, arguments, true);
}
Value filter_max(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  return extreme(interpreter, "max", value, arguments, false);
}

Value filter_sum(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("sum", arguments, {"attribute", "start"});
  Heap& heap = interpreter.heap();
  const AttributePath path(heap, or_none(given[0]));
  Value total = given[1] ? *given[1] : Value(std::int64_t{0});
  if (as_text(total) != nullptr) throw UserError("sum: expected numbers, got texts; try the filter join");
  Cursor cursor(heap, value);
  for (Value item; cursor.next(item);) total = binary(interpreter, "+", total, path.of(interpreter, item));
  return total;
}

Value filter_batch(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("batch", arguments, {"linecount", "fill_with"}, 1);
  Heap& heap = interpreter.heap();
  const std::int64_t size = integer_argument("batch", *given[0]);
  Values rows;
  Values row;
  for (const Value& item : items_of(heap, value)) {
    if (static_cast<std::int64_t>(row.size()) == size) rows.push_back(heap.list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    const bool filled = given[1] && !is_none(*given[1]);
    if (filled && static_cast<std::int64_t>(row.size()) < size) {
      heap.expect_items(size);
      row.resize(static_cast<std::size_t>(size), *given[1]);
    }
    rows.push_back(heap.list(std::move(row)));
  }
  return generator_over(heap, "generator", std::move(rows));
}

Value filter_slice(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("slice", arguments, {"slices", "fill_with"}, 1);
  Heap& heap = interpreter.heap();
  const std::int64_t slices = integer_argument("slice", *given[0]);
  if (slices < 1) throw UserError("slice: expected at least one slice, got {}", slices);
  heap.expect_items(slices);
  const Values items = items_of(heap, value);
  const auto count = static_cast<std::int64_t>(items.size());
  Values rows;
  std::int64_t from = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    const bool has_extra = i < count % slices;
    const std::int64_t size = count / slices + (has_extra ? 1 : 0);
    Values row(items.begin() + from, items.begin() + from + size);
    if (given[1] && !is_none(*given[1]) && !has_extra) row.push_back(*given[1]);
    rows.push_back(heap.list(std::move(row)));
    from += size;
  }
  return generator_over(heap, "generator", std::move(rows));
}

// The attribute alone, never the item of that name.
Value filter_attr(Interpreter& interpreter, const Value& value, Arguments& arguments) {
  const auto given = bound("attr", arguments, {"name"}, 1);
  const Text& name = text_argument("attr", *given[0]);
  if (is_undefined(value)) fail_undefined(value);
  if (auto found = python_attribute(interpreter.heap(), value, name.bytes)) return *std::move(found);
  return undefined(fmt::format("{} has no attribute '{}'", type_name(value), name.bytes));
}

}  // namespace

std::span<const NamedFilter> list_filters() {
  static constexpr std::array<NamedFilter, 20> kFilters{{
      {"list", filter_list},
      {"join", filter_join},
      {"first", filter_first},
      {"last", filter_last},
      {"reverse", filter_reverse},
      {"items", filter_items},
      {"map", filter_map},
      {"select", filter_select},
      {"reject", filter_reject},
      {"selectattr", filter_selectattr},
      {"rejectattr", filter_rejectattr},
      {"unique", filter_unique},
      {"sort", filter_sort},
      {"dictsort", filter_dictsort},
      {"min", filter_min},
      {"max", filter_max},
      {"sum", filter_sum},
      {"batch", filter_batch},
      {"slice", filter_slice},
      {"attr", filter_attr},
  }};
  return kFilters;
}

}  // namespace routeopd::jinja
