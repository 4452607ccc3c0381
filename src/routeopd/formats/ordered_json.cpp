// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/ordered_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "routeopd/base/error.h"

namespace routeopd::formats {
namespace {

constexpr std::size_t kMaxOrderedDepth = 190;  // templates refuse values deeper than 200
constexpr std::int64_t kMaxOrderedValues = 1LL << 22U;

// Builds the value from the parser's events.
class OrderedBuilder : public nlohmann::json_sax<OrderedJson> {
 public:
  OrderedJson& result() { return result_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& spelling) override {
    // The parser gives integers beyond 64 bits as rounded floats.
    if (spelling.find_first_of(".eE") == string_t::npos)
      throw UserError("expected integers of 64 bits, got {}", spelling);
    return put(value);
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(OrderedJson::object()); }
  bool start_array(std::size_t) override { return open(OrderedJson::array()); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) throw UserError("expected each key once, got {} twice", name);
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    throw UserError("expected JSON, got something else at byte {}", at);
  }

 private:
  OrderedJson& place(OrderedJson value) {
    if (++values_ > kMaxOrderedValues)
      throw UserError("expected at most {} values, got more", kMaxOrderedValues);
    if (open_.empty()) return result_ = std::move(value);
    OrderedJson& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return parent.back();
    }
    // Known to be new: ordered_json would look through all keys.
    auto& entries = parent.get_ref<OrderedJson::object_t&>();
    entries.std::vector<std::pair<const std::string, OrderedJson>>::emplace_back(std::move(key_),
                                                                                 std::move(value));
    return entries.back().second;
  }
  bool put(OrderedJson value) {
    place(std::move(value));
    return true;
  }
  // Only the last place of each open value grows, so that pointers to the open ones stay good.
  bool open(OrderedJson empty) {
    if (open_.size() >= kMaxOrderedDepth)
      throw UserError("expected at most {} nested levels, got more", kMaxOrderedDepth);
    open_.push_back(&place(std::move(empty)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  OrderedJson result_;
  std::vector<OrderedJson*> open_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
  std::int64_t values_ = 0;
};

}  // namespace

OrderedJson parse_ordered_json(std::string_view text, std::string_view where) {
  OrderedBuilder builder;
  try {
    // To the parser a zero byte is the end of the text, whatever follows it.
    if (text.find('\0') != std::string_view::npos) throw UserError("expected JSON, got a zero byte in it");
    if (!OrderedJson::sax_parse(text.begin(), text.end(), &builder))
      throw UserError("expected JSON, got something else");
  } catch (const UserError& error) {
    throw UserError("{}: {}", where, error.what());
  }
  return std::move(builder.result());
}

}  // namespace routeopd::formats
