// The values of a template: Python's, as far as templates can reach them.
//
// Texts, lists and dicts are immutable (transformers' sandbox forbids changes), so they are shared. Nesting
// is bounded when a value is created (kMaxNesting), so that printing, comparing and freeing may recurse.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace routeopd::jinja {

class Heap;
class Evaluator;
struct Arguments;

constexpr int kMaxNesting = 200;

// Memory that counts towards a heap's bound while its owner lives.
class Charge {
 public:
  Charge() = default;
  Charge(Heap& heap, std::int64_t bytes);  // throws UserError when the heap is full
  Charge(Charge&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)), bytes_(other.bytes_) {}
  Charge& operator=(Charge&&) = delete;
  ~Charge();

 private:
  Heap* heap_ = nullptr;
  std::int64_t bytes_ = 0;
};

struct Undefined {
  std::shared_ptr<const std::string> why;  // the error when it is used
};
struct None {};
struct Text;
struct Sequence;
struct Dict;
struct Range;
struct Iterator;
struct Namespace;
struct Callable;
struct Loop;
struct Cycler;

using TextPtr = std::shared_ptr<const Text>;
using SequencePtr = std::shared_ptr<const Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using RangePtr = std::shared_ptr<const Range>;
using IteratorPtr = std::shared_ptr<Iterator>;
using NamespacePtr = std::shared_ptr<Namespace>;
using CallablePtr = std::shared_ptr<const Callable>;
using LoopPtr = std::shared_ptr<Loop>;
using CyclerPtr = std::shared_ptr<Cycler>;

using Value = std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, SequencePtr, DictPtr,
                           RangePtr, IteratorPtr, NamespacePtr, CallablePtr, LoopPtr, CyclerPtr>;
using Values = std::vector<Value>;

struct Text {
  std::string bytes;    // UTF-8
  std::int64_t length;  // in code points
  bool markup = false;  // made by `safe` or `escape`: text joined to it is escaped
  Charge charge;
};

struct Sequence {
  enum class Form { kList, kTuple, kDictItems, kDictKeys, kDictValues };
  Form form;
  Values items;
  int nesting;
  Charge charge;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;        // in order of insertion
  std::unordered_map<std::string, std::size_t> index;  // of key_of(key)
  int nesting;
  Charge charge;
};

struct Range {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
  std::int64_t length;
};

// A generator: computes each value when it is asked for, and gives it once.
struct Iterator {
  std::function<bool(Value&)> next;  // false at the end
  const char* type;                  // as Python names it
  int nesting;
  Charge charge;
};

// The only value that a template may change. It may contain itself; the evaluator empties it at the end.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  Charge charge;
};

struct Callable {
  std::string name;
  std::function<Value(Evaluator&, Arguments)> call;
  bool is_macro = false;
  std::vector<std::string> parameters;  // of a macro
  int nesting;
  Charge charge;
};

// The arguments of a call.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

// cycler(…) and joiner(…).
struct Cycler {
  Values items;
  std::size_t at = 0;
  bool joiner = false;
  int nesting;
  Charge charge;
};

// The variable `loop` of a for loop: reads ahead only as far as it is asked to, as jinja's LoopContext does.
// It holds values while its loop runs and is empty afterwards, so that values that hold loops are neither
// deep nor cyclic.
struct Loop {
  explicit Loop(Heap& heap) : charge(heap, 1024) {}

  std::function<bool(Value&)> source;  // the items that pass the loop's condition
  std::optional<std::int64_t> known_length;
  std::deque<Value> ahead;   // read from the source, not yet current
  std::int64_t index0 = -1;  // of the current item
  std::int64_t depth0 = 0;
  Value before;
  Value current;
  std::optional<Values> last_changed;

  bool ended = false;
  Charge charge;

  bool advance();  // to the next item; false at the end
  bool peek();     // whether there is a next item
  std::int64_t length();
  void end();
};

template <class T>
const T* get_if(const Value& value) {
  return std::get_if<T>(&value);
}

inline bool is_undefined(const Value& value) {
  return get_if<Undefined>(value) != nullptr;
}
inline bool is_none(const Value& value) {
  return get_if<None>(value) != nullptr;
}
inline const Text* as_text(const Value& value) {
  const TextPtr* text = get_if<TextPtr>(value);
  return text == nullptr ? nullptr : text->get();
}
// A list or a tuple, not a view of a dict.
const Sequence* as_list(const Value& value);
inline const Dict* as_dict(const Value& value) {
  const DictPtr* dict = get_if<DictPtr>(value);
  return dict == nullptr ? nullptr : dict->get();
}
// An integer, or a boolean, which Python treats as one.
std::optional<std::int64_t> as_integer(const Value& value);
// A number of any type.
std::optional<double> as_number(const Value& value);

// Python's name of the type: str, int, NoneType, …
std::string type_name(const Value& value);
int nesting_of(const Value& value);

// An undefined value; using it throws `why`.
Value undefined(std::string why);
// Throws the reason why the value is undefined.
[[noreturn]] void fail_undefined(const Value& value);

bool truth(const Value& value);

// len(); throws UserError for what has none.
std::int64_t length_of(const Value& value);

// A text that is equal for equal dict keys; throws UserError for a list, a dict or a view.
std::string key_of(const Value& key);
// The value under `key`, null where there is none.
const Value* find(const Dict& dict, const Value& key);
const Value* find(const Dict& dict, std::string_view key);

// A text of the syntax tree, which belongs to no heap.
Value constant_text(std::string bytes);

}  // namespace routeopd::jinja
