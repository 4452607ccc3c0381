// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/value.h"

#include <bit>
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string sequence_type(Sequence::Form form) {
  switch (form) {
    case Sequence::Form::kList:
      return "list";
    case Sequence::Form::kTuple:
      return "tuple";
    case Sequence::Form::kDictItems:
      return "dict_items";
    case Sequence::Form::kDictKeys:
      return "dict_keys";
    case Sequence::Form::kDictValues:
      return "dict_values";
  }
  return "list";
}

constexpr std::size_t kMaxTupleKey = std::size_t{1} << 20U;

std::string text_key(std::string_view text) {
  std::string key;
  key.reserve(text.size() + 1);
  key.push_back('s');
  return key.append(text);
}

std::string integer_key(std::int64_t value) {
  return fmt::format("i{}", value);
}

}  // namespace

const Sequence* as_list(const Value& value) {
  const SequencePtr* found = get_if<SequencePtr>(value);
  if (found == nullptr) return nullptr;
  const Sequence::Form form = (*found)->form;
  return form == Sequence::Form::kList || form == Sequence::Form::kTuple ? found->get() : nullptr;
}

std::optional<std::int64_t> as_integer(const Value& value) {
  if (const auto* number = get_if<std::int64_t>(value)) return *number;
  if (const auto* flag = get_if<bool>(value)) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<double> as_number(const Value& value) {
  if (const auto* number = get_if<double>(value)) return *number;
  if (const auto number = as_integer(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::string type_name(const Value& value) {
  return std::visit(
      Overloaded{
          [](const Undefined&) { return std::string("Undefined"); },
          [](const None&) { return std::string("NoneType"); },
          [](bool) { return std::string("bool"); },
          [](std::int64_t) { return std::string("int"); },
          [](double) { return std::string("float"); },
          [](const TextPtr& text) { return std::string(text->markup ? "Markup" : "str"); },
          [](const SequencePtr& sequence) { return sequence_type(sequence->form); },
          [](const DictPtr&) { return std::string("dict"); },
          [](const RangePtr&) { return std::string("range"); },
          [](const IteratorPtr& iterator) { return std::string(iterator->type); },
          [](const NamespacePtr&) { return std::string("Namespace"); },
          [](const CallablePtr& callable) { return std::string(callable->is_macro ? "Macro" : "function"); },
          [](const LoopPtr&) { return std::string("LoopContext"); },
          [](const CyclerPtr& cycler) { return std::string(cycler->joiner ? "Joiner" : "Cycler"); },
      },
      value);
}

int nesting_of(const Value& value) {
  return std::visit(
      []<class T>(const T& each) {
        if constexpr (requires { each->nesting; }) {
          return each->nesting;
        } else {
          return 0;
        }
      },
      value);
}

Value undefined(std::string why) {
  return Undefined{std::make_shared<const std::string>(std::move(why))};
}

void fail_undefined(const Value& value) {
  const auto* missing = get_if<Undefined>(value);
  ROUTEOPD_INVARIANT(missing != nullptr);
  if (missing->why == nullptr) throw UserError("an undefined value is used");
  throw UserError(*missing->why);
}

bool truth(const Value& value) {
  return std::visit(Overloaded{
                        [](const Undefined&) { return false; },
                        [](const None&) { return false; },
                        [](bool flag) { return flag; },
                        [](std::int64_t number) { return number != 0; },
                        [](double number) { return number != 0.0; },
                        [](const TextPtr& text) { return !text->bytes.empty(); },
                        [](const SequencePtr& sequence) { return !sequence->items.empty(); },
                        [](const DictPtr& dict) { return !dict->entries.empty(); },
                        [](const RangePtr& range) { return range->length != 0; },
                        [](const LoopPtr& loop) { return loop->length() != 0; },
                        [](const auto&) { return true; },
                    },
                    value);
}

std::int64_t length_of(const Value& value) {
  if (is_undefined(value)) return 0;
  if (const Text* text = as_text(value)) return text->length;
  if (const auto* sequence = get_if<SequencePtr>(value))
    return static_cast<std::int64_t>((*sequence)->items.size());
  if (const Dict* dict = as_dict(value)) return static_cast<std::int64_t>(dict->entries.size());
  if (const auto* range = get_if<RangePtr>(value)) return (*range)->length;
  if (const auto* loop = get_if<LoopPtr>(value)) return (*loop)->length();
  throw UserError("expected something that has a length, got {}", type_name(value));
}

std::string key_of(const Value& key) {
  if (const Text* text = as_text(key)) return text_key(text->bytes);
  if (const auto number = as_integer(key)) return integer_key(*number);
  if (const auto* number = get_if<double>(key)) {
    // 2.0 and 2 are the same key; below 2^63 the conversion is exact.
    if (std::trunc(*number) == *number && std::abs(*number) < 9.2e18)
      return integer_key(static_cast<std::int64_t>(*number));
    return fmt::format("f{}", std::bit_cast<std::uint64_t>(*number));
  }
  if (is_none(key)) return "n";
  if (is_undefined(key)) return "u";
  if (const Sequence* tuple = as_list(key); tuple != nullptr && tuple->form == Sequence::Form::kTuple) {
    std::string joined = "t";
    for (const Value& item : tuple->items) {
      const std::string part = key_of(item);
      joined += fmt::format("{}:{}", part.size(), part);
      // The key of a tuple that contains one tuple twice, and so on, would be exponentially long.
      if (joined.size() > kMaxTupleKey)
        throw UserError("expected a shorter tuple as a key, got one of many parts");
    }
    return joined;
  }
  const bool by_value =
      get_if<SequencePtr>(key) != nullptr || as_dict(key) != nullptr || get_if<RangePtr>(key) != nullptr;
  if (by_value) throw UserError("expected a key that can be hashed, got {}", type_name(key));
  return std::visit(
      []<class T>(const T& each) {
        if constexpr (requires { each.get(); }) {
          return fmt::format("o{}", reinterpret_cast<std::uintptr_t>(each.get()));
        } else {
          return std::string();
        }
      },
      key);
}

const Value* find(const Dict& dict, const Value& key) {
  const auto found = dict.index.find(key_of(key));
  return found == dict.index.end() ? nullptr : &dict.entries[found->second].second;
}

const Value* find(const Dict& dict, std::string_view key) {
  const auto found = dict.index.find(text_key(key));
  return found == dict.index.end() ? nullptr : &dict.entries[found->second].second;
}

Value constant_text(std::string bytes) {
  const std::int64_t length = count_code_points(bytes);
  return std::make_shared<const Text>(Text{std::move(bytes), length, false, Charge()});
}

bool Loop::advance() {
  Value item;
  if (!ahead.empty()) {
    item = std::move(ahead.front());
    ahead.pop_front();
  } else if (!source(item)) {
    return false;
  }
  ++index0;
  before = std::move(current);
  current = std::move(item);
  return true;
}

bool Loop::peek() {
  if (!ahead.empty()) return true;
  Value item;
  if (!source(item)) return false;
  ahead.push_back(std::move(item));
  return true;
}

std::int64_t Loop::length() {
  if (!known_length) {
    for (Value item; source(item);) ahead.push_back(item);
    known_length = index0 + 1 + static_cast<std::int64_t>(ahead.size());
  }
  return *known_length;
}

void Loop::end() {
  ended = true;
  if (!known_length) known_length = index0 + 1;
  source = nullptr;
  ahead.clear();
  last_changed.reset();
  before = None{};
  current = None{};
}

}  // namespace routeopd::jinja
