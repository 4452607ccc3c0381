// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/heap.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"

namespace routeopd::jinja {
namespace {

// What a value takes in addition to its contents: control block, object, the allocator's overhead.
constexpr std::int64_t kObjectBytes = 96;
constexpr std::int64_t kEntryBytes = 160;  // per entry of a dict: two values, the index's node and its key

Value text_of(Heap& heap, const std::string& bytes) {
  if (!is_utf8(bytes)) throw UserError("expected UTF-8, got other bytes");
  return heap.text(bytes);
}

}  // namespace

Charge::Charge(Heap& heap, std::int64_t bytes) : heap_(&heap), bytes_(bytes) {
  if (heap.memory_ + bytes > heap.limits_.memory_bytes) {
    heap_ = nullptr;
    throw UserError("expected the template's values to stay below {} bytes, got more",
                    heap.limits_.memory_bytes);
  }
  heap.memory_ += bytes;
}

Charge::~Charge() {
  if (heap_ != nullptr) heap_->memory_ -= bytes_;
}

void Heap::fail_steps() const {
  throw UserError("expected the template to end within {} steps, got more; does it loop over too much?",
                  limits_.steps);
}

void Heap::expect_bytes(std::int64_t bytes) const {
  if (bytes > limits_.text_bytes || bytes < 0)
    throw UserError("expected a text of at most {} bytes, got more", limits_.text_bytes);
}

void Heap::expect_items(std::int64_t items) const {
  if (items > limits_.items || items < 0)
    throw UserError("expected at most {} items in a list, got more", limits_.items);
}

int Heap::nested(int inner) {
  if (inner >= kMaxNesting) throw UserError("expected at most {} nested values, got more", kMaxNesting);
  return inner + 1;
}

Value Heap::text(std::string bytes, bool markup) {
  expect_bytes(static_cast<std::int64_t>(bytes.size()));
  spend_bytes(bytes.size());
  const std::int64_t length = count_code_points(bytes);
  Charge charge(*this, kObjectBytes + static_cast<std::int64_t>(bytes.capacity()));
  return std::make_shared<const Text>(Text{std::move(bytes), length, markup, std::move(charge)});
}

Value Heap::sequence(Sequence::Form form, Values items) {
  expect_items(static_cast<std::int64_t>(items.size()));
  spend(1 + static_cast<std::int64_t>(items.size() / 4));
  int inner = 0;
  for (const Value& item : items) inner = std::max(inner, nesting_of(item));
  Charge charge(*this, kObjectBytes + static_cast<std::int64_t>(items.capacity() * sizeof(Value)));
  return std::make_shared<const Sequence>(Sequence{form, std::move(items), nested(inner), std::move(charge)});
}

Value Heap::dict(std::vector<std::pair<Value, Value>> entries) {
  expect_items(static_cast<std::int64_t>(entries.size()));
  Dict made{{}, {}, 0, Charge()};
  std::int64_t bytes = kObjectBytes;
  int inner = 0;
  for (auto& [key, value] : entries) {
    std::string name = key_of(key);
    spend_bytes(name.size());
    inner = std::max({inner, nesting_of(key), nesting_of(value)});
    bytes += kEntryBytes + static_cast<std::int64_t>(name.size());
    if (bytes > limits_.memory_bytes) Charge(*this, bytes);
    const auto [found, is_new] = made.index.emplace(std::move(name), made.entries.size());
    if (is_new) {
      made.entries.emplace_back(std::move(key), std::move(value));
    } else {
      made.entries[found->second].second = std::move(value);
    }
  }
  Charge charge(*this, bytes);
  return std::make_shared<const Dict>(
      Dict{std::move(made.entries), std::move(made.index), nested(inner), std::move(charge)});
}

Value Heap::iterator(const char* type, int nesting, std::function<bool(Value&)> next) {
  return std::make_shared<Iterator>(
      Iterator{std::move(next), type, nested(nesting), Charge(*this, 2 * kObjectBytes)});
}

Value Heap::function(std::string name, int nesting, std::function<Value(Evaluator&, Arguments)> call) {
  return std::make_shared<const Callable>(Callable{
      std::move(name), std::move(call), false, {}, nested(nesting), Charge(*this, 3 * kObjectBytes)});
}

bool is_iterable(const Value& value) {
  return is_undefined(value) || as_text(value) != nullptr || get_if<SequencePtr>(value) != nullptr ||
         as_dict(value) != nullptr || get_if<RangePtr>(value) != nullptr ||
         get_if<IteratorPtr>(value) != nullptr || get_if<LoopPtr>(value) != nullptr;
}

Cursor::Cursor(Heap& heap, Value source) : heap_(&heap), source_(std::move(source)) {
  if (!is_iterable(source_))
    throw UserError("expected something to iterate over, got {}", type_name(source_));
  if (get_if<LoopPtr>(source_) != nullptr) throw UserError("iterating over loop is not supported");
}

bool Cursor::next(Value& item) {
  heap_->spend(1);
  if (const Text* text = as_text(source_)) {
    if (at_ >= text->bytes.size()) return false;
    const std::size_t first = at_;
    next_code_point(text->bytes, at_);
    item = heap_->text(text->bytes.substr(first, at_ - first), text->markup);
    return true;
  }
  if (const auto* iterator = get_if<IteratorPtr>(source_)) {
    const IteratorPtr kept = *iterator;
    return kept->next(item);
  }
  if (const auto* sequence = get_if<SequencePtr>(source_)) {
    if (at_ >= (*sequence)->items.size()) return false;
    item = (*sequence)->items[at_++];
    return true;
  }
  if (const Dict* dict = as_dict(source_)) {
    if (at_ >= dict->entries.size()) return false;
    item = dict->entries[at_++].first;
    return true;
  }
  if (const auto* range = get_if<RangePtr>(source_)) {
    if (at_ >= static_cast<std::size_t>((*range)->length)) return false;
    item = (*range)->start + static_cast<std::int64_t>(at_++) * (*range)->step;
    return true;
  }
  return false;
}

Values items_of(Heap& heap, const Value& iterable) {
  Values items;
  Cursor cursor(heap, iterable);
  for (Value item; cursor.next(item);) {
    items.push_back(item);
    heap.expect_items(static_cast<std::int64_t>(items.size()));
  }
  return items;
}

void TextBuilder::repeat(std::string_view part, std::int64_t times) {
  if (times <= 0 || part.empty()) return;
  heap_.expect_bytes(times);
  heap_.expect_bytes(static_cast<std::int64_t>(text_.size()) +
                     times * static_cast<std::int64_t>(part.size()));
  if (part.size() == 1) {
    text_.append(static_cast<std::size_t>(times), part.front());
    return;
  }
  for (std::int64_t i = 0; i < times; ++i) text_.append(part);
}

Value value_of(Heap& heap, const OrderedJson& json, int depth) {
  using Type = OrderedJson::value_t;
  if (depth >= kMaxNesting) throw UserError("expected at most {} nested levels, got more", kMaxNesting);
  heap.spend(1);
  switch (json.type()) {
    case Type::null:
      return None{};
    case Type::boolean:
      return json.get<bool>();
    case Type::number_integer:
      return json.get<std::int64_t>();
    case Type::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw UserError("expected integers below 2^63, got {}", json.get<std::uint64_t>());
      return json.get<std::int64_t>();
    case Type::number_float:
      return json.get<double>();
    case Type::string:
      return text_of(heap, json.get_ref<const std::string&>());
    case Type::array: {
      Values items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(value_of(heap, item, depth + 1));
      return heap.list(std::move(items));
    }
    case Type::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items())
        entries.emplace_back(text_of(heap, key), value_of(heap, item, depth + 1));
      return heap.dict(std::move(entries));
    }
    default:
      throw UserError("expected a value of JSON, got {}", json.type_name());
  }
}

}  // namespace routeopd::jinja
