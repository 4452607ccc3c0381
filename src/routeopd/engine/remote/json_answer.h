// A server's JSON, read once from front to back by simdjson, straight into arrays: no tree. Takes the body
// and beside it four bytes for each of the text's brackets, commas, colons and values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "routeopd/engine/remote/server_api.h"

namespace routeopd::engine {

using JsonValue = simdjson::ondemand::value;
using JsonObject = simdjson::ondemand::object;
using JsonKey = simdjson::ondemand::raw_json_string;

inline bool is_null(JsonValue value) {
  return value.raw_json_token().substr(0, 4) == "null";
}

// A number; NaN for null and for what writers without bounds put there (NaN, Infinity).
inline double number_or_nan(JsonValue value, const char* what) {
  double number = 0;
  if (value.get_double().get(number) == simdjson::SUCCESS) return number;
  const std::string_view token = value.raw_json_token();
  for (const std::string_view none : {"null", "NaN", "Infinity", "-Infinity"})
    if (token.substr(0, none.size()) == none) return std::numeric_limits<double>::quiet_NaN();
  throw BadAnswer(fmt::format("{} is not a number", what));
}

inline std::int64_t integer_of(JsonValue value, const char* what) {
  std::int64_t number = 0;
  if (value.get_int64().get(number) != simdjson::SUCCESS)
    throw BadAnswer(fmt::format("{} is not a whole number", what));
  return number;
}

inline std::int32_t id_of(JsonValue value) {
  const std::int64_t id = integer_of(value, "an id");
  if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
    throw BadAnswer(fmt::format("{} is not an id", id));
  return static_cast<std::int32_t>(id);
}

inline std::string_view text_of(JsonValue value, const char* what) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS)
    throw BadAnswer(fmt::format("{} is not a text", what));
  return text;
}

// Runs `read` on the object that `body` is. Throws BadAnswer, beginning with `what`, for anything else and
// for what simdjson or `read` refuse.
template <class Read>
void read_json_answer(std::string body, std::string_view what, const Read& read) {
  try {
    const std::size_t size = body.size();
    body.reserve(size + simdjson::SIMDJSON_PADDING);
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document document =
        parser.iterate(simdjson::padded_string_view(body.data(), size, body.capacity()));
    read(document.get_object().value());
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
      throw BadAnswer("there is more after its end");
  } catch (const simdjson::simdjson_error& error) {
    throw BadAnswer(
        fmt::format("{}: its answer of {} bytes cannot be read: {}", what, body.size(), error.what()));
  } catch (const BadAnswer& error) {
    throw BadAnswer(fmt::format("{}: its answer cannot be used: {}", what, error.what()));
  }
}

// Refuses a key that comes twice: which of them is meant?
class Once {
 public:
  explicit Once(const char* key) : key_(key) {}
  void operator()() {
    if (std::exchange(met_, true)) throw BadAnswer(fmt::format("{} is there twice; expected once", key_));
  }
  bool met() const { return met_; }

 private:
  const char* key_;
  bool met_ = false;
};

// The oldest of two versions; an answer that has none leaves the other.
inline void keep_oldest(std::optional<std::int64_t>& oldest, std::optional<std::int64_t> one) {
  if (one && (!oldest || *one < *oldest)) oldest = one;
}

// The version that a server's label of weights means: a number that reload() set, else kForeignVersion.
std::int64_t version_of_label(std::string_view label);

}  // namespace routeopd::engine
