// JSON written front to back into a string: answers with log-probabilities are megabytes, and a tree of
// values would be several times that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace routeopd::serve {

// Commas come by themselves. The caller closes what it opened, and gives a key before each value of an
// object.
class JsonText {
 public:
  JsonText& open(char bracket);   // { or [
  JsonText& close(char bracket);  // } or ]
  JsonText& key(std::string_view name);

  JsonText& null();
  JsonText& boolean(bool value);
  JsonText& integer(std::int64_t value);
  JsonText& text(std::string_view value);  // UTF-8
  JsonText& raw(std::string_view json);    // a value that is JSON already

  // A float as the double that equals it, with a point or an exponent. JSON has no infinities: as vLLM does,
  // -infinity and NaN become -9999.
  JsonText& number(float value);

  JsonText& ids(std::span<const std::int32_t> values);

  const std::string& str() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  void separate();

  std::string text_;
};

}  // namespace routeopd::serve
