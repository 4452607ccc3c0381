// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/tokenizer_file.h"

#include <cstddef>
#include <utility>

#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/json_scanner.h"

namespace routeopd::tokenizer {
namespace {

constexpr std::size_t kMaxList = 64;
constexpr std::size_t kMaxString = 1024;

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxValues = 1U << 24U;
constexpr std::uint64_t kMaxId = (1U << 24U) - 1;  // the most rows that a model's embedding may have

[[noreturn]] void refuse_id(std::string_view token, std::string_view got) {
  throw UserError("model: vocab: {}: expected a whole number from 0 to {}, got {}", token, kMaxId, got);
}

[[noreturn]] void refuse_merge(std::string_view got) {
  throw UserError("model: merges: expected [\"a\", \"b\"] or \"a b\", got {}", got);
}

// Handles the values that the scanner reads. Throws UserError at the first wrong one.
class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerFile& file) : file_(file) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (inside_ != Inside::vocabulary) return scalar(value);
    if (value > kMaxId) refuse_id(token_, std::to_string(value));
    add_token(static_cast<std::int32_t>(value));
    return true;
  }
  bool number_float(number_float_t value, const string_t& /*digits*/) override { return scalar(value); }
  bool string(string_t& value) override {
    if (inside_ == Inside::merges) {
      add_merge(value);
    } else if (inside_ == Inside::merge) {
      add_side(value);
    } else {
      return scalar(std::move(value));
    }
    return true;
  }
  bool binary(binary_t& /*value*/) override { return scalar(nullptr); }

  bool start_object(std::size_t /*elements*/) override {
    refuse_inside("an object");
    if (at_model_key("vocab")) {
      inside_ = Inside::vocabulary;
      file_.tokens.emplace();
      key_.clear();
      return true;
    }
    open(Json::object());
    return true;
  }
  bool key(string_t& name) override {
    if (inside_ == Inside::vocabulary) {
      token_.swap(name);
      return true;
    }
    const bool captured = stack_.size() == 2 && in_model_ &&
                          ((name == "vocab" && file_.tokens) || (name == "merges" && file_.merges));
    if (captured || stack_.back()->contains(name))
      throw UserError("expected each key once, got {} twice", name);
    key_ = name;
    return true;
  }
  bool end_object() override {
    if (inside_ == Inside::vocabulary) {
      inside_ = Inside::rest;
    } else {
      close();
    }
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (inside_ == Inside::merges) {
      inside_ = Inside::merge;
      return true;
    }
    refuse_inside("a list");
    if (at_model_key("merges")) {
      inside_ = Inside::merges;
      file_.merges.emplace();
      key_.clear();
      return true;
    }
    open(Json::array());
    return true;
  }
  bool end_array() override {
    if (inside_ == Inside::merge) {
      if (sides_ != 2) refuse_merge("a list of another length");
      sides_ = 0;
      inside_ = Inside::merges;
    } else if (inside_ == Inside::merges) {
      inside_ = Inside::rest;
    } else {
      close();
    }
    return true;
  }

  bool parse_error(std::size_t /*place*/, const std::string& /*last*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  enum class Inside { rest, vocabulary, merges, merge };

  // Whether the next value is the model's `name`.
  bool at_model_key(std::string_view name) const {
    return stack_.size() == 2 && in_model_ && stack_.back()->is_object() && key_ == name;
  }

  void refuse_inside(std::string_view got) const {
    if (inside_ == Inside::vocabulary) refuse_id(token_, got);
    if (inside_ == Inside::merges || inside_ == Inside::merge) refuse_merge(got);
  }

  void count() {
    if (++values_ > kMaxValues) throw UserError("expected at most {} values, got more", kMaxValues);
  }

  bool scalar(Json value) {
    if (inside_ != Inside::rest) refuse_inside(shown(value));
    place(std::move(value));
    return true;
  }

  // Stores a value in the open object or list; returns where.
  Json* place(Json value) {
    count();
    if (stack_.empty()) {
      if (!value.is_object()) throw UserError("expected a JSON object, got {}", value.type_name());
      file_.rest = std::move(value);
      return &file_.rest;
    }
    if (stack_.back()->is_array()) return &stack_.back()->emplace_back(std::move(value));
    Json& slot = (*stack_.back())[key_];
    slot = std::move(value);
    return &slot;
  }

  void open(Json container) {
    if (stack_.size() >= kMaxDepth) throw UserError("expected at most {} nested levels, got more", kMaxDepth);
    if (stack_.size() == 1) in_model_ = key_ == "model";
    stack_.push_back(place(std::move(container)));
  }

  void close() { stack_.pop_back(); }

  void add_token(std::int32_t id) {
    count();
    file_.tokens->bytes += token_;
    file_.tokens->list.push_back({static_cast<std::uint32_t>(file_.tokens->bytes.size()), id});
  }

  void add_side(std::string_view side) {
    count();
    if (++sides_ > 2) refuse_merge("a longer list");
    file_.merges->bytes += side;
    file_.merges->ends.push_back(static_cast<std::uint32_t>(file_.merges->bytes.size()));
  }

  void add_merge(std::string_view text) {
    if (text.starts_with("#version")) return;  // the first line of merges.txt, which old files were made from
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      refuse_merge(text);
    add_side(text.substr(0, space));
    add_side(text.substr(space + 1));
    sides_ = 0;
  }

  TokenizerFile& file_;
  std::vector<Json*>
      stack_;  // the open objects and lists; pointers stay valid since only the innermost grows
  std::string key_;
  std::string token_;
  std::size_t values_ = 0;
  int sides_ = 0;
  bool in_model_ = false;
  Inside inside_ = Inside::rest;
};

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view text, std::string_view where) {
  TokenizerFile file;
  try {
    Reader reader(file);
    scan_json(text, reader);
  } catch (const UserError& error) {
    throw UserError("{}: {}", where, error.what());
  }
  return file;
}

std::string component_type(const Json& component) {
  if (!component.is_object()) throw UserError("expected an object, got {}", component.type_name());
  const Json& type = formats::value_or_null(component, "type");
  if (!type.is_string()) throw UserError("type: expected a name, got {}", shown(type));
  return type.get<std::string>();
}

const Json& component_list(const Json& component, const char* key) {
  const Json& list = formats::value_or_null(component, key);
  if (!list.is_array()) throw UserError("{}: expected a list, got {}", key, shown(list));
  if (list.size() > kMaxList) throw UserError("{}: expected at most {}, got {}", key, kMaxList, list.size());
  return list;
}

bool flag_of(const Json& component, const char* key) {
  if (formats::value_or_null(component, key).is_null()) throw UserError("expected {}, got none", key);
  return formats::flag_or(component, key, false);
}

std::string short_string(const Json& component, const char* key) {
  const Json& value = formats::value_or_null(component, key);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > kMaxString)
    throw UserError("{}: expected a string of at most {} bytes, got {}", key, kMaxString, shown(value));
  return value.get<std::string>();
}

std::string one_character(const Json& component, const char* key) {
  const std::string value = short_string(component, key);
  if (value.empty() || utf8_length(value.front()) != value.size())
    throw UserError("{}: expected one character, got {}", key, value);
  return value;
}

}  // namespace routeopd::tokenizer
