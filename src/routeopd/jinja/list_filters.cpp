// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/list_filters.h"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_set>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/jinja/conversions.h"
#include "routeopd/jinja/filters.h"
#include "routeopd/jinja/methods.h"
#include "routeopd/jinja/operators.h"

namespace routeopd::jinja {
namespace {

// The attribute that a filter looks at: "function.name", "0.1", 3. None: the item itself.
class AttributePath {
 public:
  // None: the item itself. `otherwise` replaces an undefined value, unless it is None.
  AttributePath(Heap& heap, const Value& attribute, Value otherwise = None{});
  Value of(Evaluator& evaluator, Value item) const;

 private:
  Values parts_;
  Value otherwise_;
};

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at = text.find(separator); at != std::string::npos; at = text.find(separator, from)) {
    parts.push_back(text.substr(from, at - from));
    from = at + 1;
  }
  parts.push_back(text.substr(from));
  return parts;
}

AttributePath::AttributePath(Heap& heap, const Value& attribute, Value otherwise)
    : otherwise_(std::move(otherwise)) {
  if (is_none(attribute)) return;
  const Text* text = as_text(attribute);
  if (text == nullptr) {
    parts_.push_back(attribute);
    return;
  }
  for (std::string& part : split_at(text->bytes, '.')) {
    const bool is_number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto number = is_number ? parsed_integer(part, 10) : std::nullopt;
    parts_.push_back(number ? Value(*number) : heap.text(std::move(part)));
  }
}

Value AttributePath::of(Evaluator& evaluator, Value item) const {
  for (const Value& part : parts_) {
    item = get_item(evaluator.heap(), item, part);
    if (!is_none(otherwise_) && is_undefined(item)) item = otherwise_;
  }
  return item;
}

std::vector<AttributePath> several_paths(Heap& heap, const Value& attribute) {
  std::vector<AttributePath> paths;
  const Text* text = as_text(attribute);
  if (text == nullptr) {
    paths.emplace_back(heap, attribute);
  } else {
    for (std::string& each : split_at(text->bytes, ',')) paths.emplace_back(heap, heap.text(std::move(each)));
  }
  return paths;
}

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

// Sorts items by keys; keys[i] belongs to items[i].
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

Value filter_list(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("list", arguments, {});
  return evaluator.heap().list(items_of(evaluator.heap(), value));
}

Value filter_join(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = bound("join", arguments, {"d", "attribute"});
  const std::string between = given[0] ? str(heap, *given[0]) : "";
  const AttributePath path(heap, or_none(given[1]));
  TextBuilder out(heap);
  Cursor cursor(heap, value);
  bool first = true;
  for (Value item; cursor.next(item); first = false) {
    if (!first) out.add(between);
    out.add(str(heap, path.of(evaluator, item)));
  }
  return heap.text(std::move(out.text()));
}

Value filter_first(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("first", arguments, {});
  Cursor cursor(evaluator.heap(), value);
  Value item;
  return cursor.next(item) ? item : undefined("No first item, sequence was empty.");
}

bool is_reversible(const Value& value) {
  return get_if<IteratorPtr>(value) == nullptr && is_iterable(value);
}

Value filter_last(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("last", arguments, {});
  if (!is_reversible(value))
    throw UserError("last: expected a list, got {}; try the filter list", type_name(value));
  const Values items = items_of(evaluator.heap(), value);
  return items.empty() ? undefined("No last item, sequence was empty.") : items.back();
}

Value generator_over(Heap& heap, const char* type, Values items) {
  const Value list = heap.list(std::move(items));
  auto cursor = std::make_shared<Cursor>(heap, list);
  return heap.iterator(type, nesting_of(list), [cursor](Value& item) { return cursor->next(item); });
}

Value filter_reverse(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("reverse", arguments, {});
  Heap& heap = evaluator.heap();
  if (as_text(value) != nullptr) return slice(heap, value, None{}, None{}, std::int64_t{-1});
  Values items = items_of(heap, value);
  std::reverse(items.begin(), items.end());
  if (get_if<IteratorPtr>(value) != nullptr) return heap.list(std::move(items));
  return generator_over(heap, "reversed", std::move(items));
}

Value filter_items(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  bound("items", arguments, {});
  Heap& heap = evaluator.heap();
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

// A generator of the items that `step` changes and returns true for. `missing`, if not null, is the error for
// missing arguments: like jinja, it is raised with the first item of a value that is true.
Value transforming(Evaluator& evaluator, const Value& value, int nesting, const char* missing,
                   std::function<bool(Value& item)> step) {
  Heap& heap = evaluator.heap();
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

Value filter_map(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const int nesting = nesting_of_all(arguments);
  const bool by_attribute =
      arguments.positional.empty() && std::any_of(arguments.named.begin(), arguments.named.end(),
                                                  [](const auto& each) { return each.first == "attribute"; });
  if (by_attribute) {
    const auto given = bound("map", arguments, {"attribute", "default"}, 1);
    auto path = std::make_shared<const AttributePath>(evaluator.heap(), *given[0], or_none(given[1]));
    return transforming(evaluator, value, nesting, nullptr, [&evaluator, path](Value& item) {
      item = path->of(evaluator, item);
      return true;
    });
  }
  const char* const missing =
      arguments.positional.empty() ? "map: expected a filter or an attribute, got none" : nullptr;
  return transforming(evaluator, value, nesting, missing, [&evaluator, arguments](Value& item) {
    Arguments rest = arguments;
    const std::string name = text_argument("map", rest.positional.front()).bytes;
    rest.positional.erase(rest.positional.begin());
    item = evaluator.apply_filter(name, item, std::move(rest));
    return true;
  });
}

// select, reject, selectattr, rejectattr: items whose test (their truth, if none is given) equals `wanted`.
Value selecting(Evaluator& evaluator, const Value& value, const Arguments& arguments, bool wanted,
                bool by_attribute) {
  const auto step = [&evaluator, arguments, wanted, by_attribute](Value& item) {
    Arguments rest = arguments;
    Value looked_at = item;
    if (by_attribute) {
      looked_at = AttributePath(evaluator.heap(), rest.positional.front()).of(evaluator, item);
      rest.positional.erase(rest.positional.begin());
    }
    if (rest.positional.empty()) return truth(looked_at) == wanted;
    const std::string name = text_argument("select", rest.positional.front()).bytes;
    rest.positional.erase(rest.positional.begin());
    return evaluator.apply_test(name, looked_at, std::move(rest)) == wanted;
  };
  const bool is_nameless = by_attribute && arguments.positional.empty();
  return transforming(evaluator, value, nesting_of_all(arguments),
                      is_nameless ? "expected the name of an attribute, got none" : nullptr, step);
}

Value filter_select(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  return selecting(evaluator, value, arguments, true, false);
}
Value filter_reject(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  return selecting(evaluator, value, arguments, false, false);
}
Value filter_selectattr(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  return selecting(evaluator, value, arguments, true, true);
}
Value filter_rejectattr(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  return selecting(evaluator, value, arguments, false, true);
}

Value filter_unique(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("unique", arguments, {"case_sensitive", "attribute"});
  Heap& heap = evaluator.heap();
  auto path = std::make_shared<const AttributePath>(heap, or_none(given[1]));
  struct Seen {
    std::unordered_set<std::string> keys;
    std::vector<Charge> charges;
  };
  auto seen = std::make_shared<Seen>();
  auto cursor = std::make_shared<Cursor>(heap, value);
  return heap.iterator("generator", nesting_of(value),
                       [&evaluator, path, seen, cursor, exact = flag(given[0])](Value& item) {
                         Heap& in = evaluator.heap();
                         while (cursor->next(item)) {
                           std::string key = key_of(folded(in, path->of(evaluator, item), exact));
                           in.spend_bytes(key.size());
                           seen->charges.emplace_back(in, static_cast<std::int64_t>(64 + key.size()));
                           if (seen->keys.insert(std::move(key)).second) return true;
                         }
                         return false;
                       });
}

Value filter_sort(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Heap& heap = evaluator.heap();
  const std::vector<AttributePath> paths = several_paths(heap, or_none(given[2]));
  const Values items = items_of(heap, value);
  Values keys;
  for (const Value& item : items) {
    Values parts;
    for (const AttributePath& path : paths)
      parts.push_back(folded(heap, path.of(evaluator, item), flag(given[1])));
    keys.push_back(heap.list(std::move(parts)));
  }
  return sorted(heap, items, keys, flag(given[0]));
}

Value filter_dictsort(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  Heap& heap = evaluator.heap();
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

Value extreme(Evaluator& evaluator, std::string_view what, const Value& value, Arguments& arguments,
              bool least) {
  const auto given = bound(what, arguments, {"case_sensitive", "attribute"});
  Heap& heap = evaluator.heap();
  const AttributePath path(heap, or_none(given[1]));
  Value best = undefined("No aggregated item, sequence was empty.");
  std::optional<Value> best_key;
  Cursor cursor(heap, value);
  for (Value item; cursor.next(item);) {
    Value key = folded(heap, path.of(evaluator, item), flag(given[0]));
    if (best_key && !(least ? less(heap, key, *best_key) : less(heap, *best_key, key))) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value filter_min(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  return extreme(evaluator, "min", value, arguments, true);
}
Value filter_max(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  return extreme(evaluator, "max", value, arguments, false);
}

Value filter_sum(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("sum", arguments, {"attribute", "start"});
  Heap& heap = evaluator.heap();
  const AttributePath path(heap, or_none(given[0]));
  Value total = given[1] ? *given[1] : Value(std::int64_t{0});
  if (as_text(total) != nullptr) throw UserError("sum: expected numbers, got texts; try the filter join");
  Cursor cursor(heap, value);
  for (Value item; cursor.next(item);) total = binary(evaluator, "+", total, path.of(evaluator, item));
  return total;
}

Value filter_batch(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("batch", arguments, {"linecount", "fill_with"}, 1);
  Heap& heap = evaluator.heap();
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

Value filter_slice(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("slice", arguments, {"slices", "fill_with"}, 1);
  Heap& heap = evaluator.heap();
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
Value filter_attr(Evaluator& evaluator, const Value& value, Arguments& arguments) {
  const auto given = bound("attr", arguments, {"name"}, 1);
  const Text& name = text_argument("attr", *given[0]);
  if (is_undefined(value)) fail_undefined(value);
  if (auto found = python_attribute(evaluator.heap(), value, name.bytes)) return *std::move(found);
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
