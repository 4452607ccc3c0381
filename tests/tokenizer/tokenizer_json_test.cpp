// The fast JSON scanner against nlohmann's parser: the same values, and the same texts refused.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/json_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "testing_files.h"

namespace routeopd::tokenizer {
namespace {

// The value built from the scanner's calls; discarded if it throws.
Json scanned(std::string_view text) {
  Json value;
  nlohmann::detail::json_sax_dom_parser<Json> builder(value, false);
  struct Forward : nlohmann::json_sax<Json> {
    explicit Forward(nlohmann::detail::json_sax_dom_parser<Json>& to) : dom(to) {}
    bool null() override { return dom.null(); }
    bool boolean(bool v) override { return dom.boolean(v); }
    bool number_integer(number_integer_t v) override { return dom.number_integer(v); }
    bool number_unsigned(number_unsigned_t v) override { return dom.number_unsigned(v); }
    bool number_float(number_float_t v, const string_t& s) override { return dom.number_float(v, s); }
    bool string(string_t& v) override { return dom.string(v); }
    bool binary(binary_t& v) override { return dom.binary(v); }
    bool start_object(std::size_t n) override { return dom.start_object(n); }
    bool key(string_t& v) override { return dom.key(v); }
    bool end_object() override { return dom.end_object(); }
    bool start_array(std::size_t n) override { return dom.start_array(n); }
    bool end_array() override { return dom.end_array(); }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
      return false;
    }
    nlohmann::detail::json_sax_dom_parser<Json>& dom;
  } forward(builder);
  try {
    scan_json(text, forward);
  } catch (const UserError&) {
    return Json(Json::value_t::discarded);
  }
  return value;
}

bool alike(const std::string& text) {
  const Json wanted = Json::parse(text, nullptr, false);
  const Json got = scanned(text);
  return wanted.is_discarded() ? got.is_discarded() : got.dump() == wanted.dump();
}

TEST(JsonScanner, TakesAndRefusesWhatNlohmannDoes) {
  for (const char* text : {"",
                           " ",
                           "{}",
                           "[]",
                           "[1,]",
                           "{\"a\":1,}",
                           "[,1]",
                           "[1 2]",
                           "{\"a\" 1}",
                           "{1:2}",
                           "nul",
                           "nulls",
                           "true false",
                           " [ 1 , 2 ] ",
                           "0",
                           "-0",
                           "00",
                           "01",
                           "-",
                           "+1",
                           "1.",
                           ".5",
                           "1.5e",
                           "1e+",
                           "1e5",
                           "1E-5",
                           "-1.25e2",
                           "18446744073709551615",
                           "18446744073709551616",
                           "-9223372036854775808",
                           "-9223372036854775809",
                           "1e400",
                           "1e-400",
                           "\"",
                           "\"a",
                           "\"a\\",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u00e9\\n\\/\\\"\\\\\\b\\f\\r\\t\"",
                           "\"\\ud83d\\ude42\"",
                           "\"\\ud83d\"",
                           "\"\\ud83dx\"",
                           "\"\\ud83d\\u0041\"",
                           "\"\\ude42\"",
                           "\"\\u+123\"",
                           "\"\\u-123\"",
                           "\"\t\"",
                           "\"\x7f\"",
                           "\"é🙂\"",
                           "\"\xff\"",
                           "\"\xed\xa0\x80\"",
                           "[\"a\",[{\"b\":[null,true,false]}],{}]",
                           "[[[[]]]",
                           "{\"a\":{\"b\":{}}}}"})
    EXPECT_TRUE(alike(text)) << text << " gave " << scanned(text);
  EXPECT_TRUE(scanned(std::string("[1]\0", 4)).is_discarded());
}

TEST(JsonScanner, DamagedTextIsTakenOrRefusedAlike) {
  const std::string whole = R"( {"a": [1, -2, 3.5e-3, true, false, null, "x\u00e9\ud83d\ude42\n"],)"
                            R"( "b": {"c": {}, "d": [[]]}, "é": "Ġ"} )";
  ASSERT_TRUE(alike(whole));
  ASSERT_FALSE(scanned(whole).is_discarded());
  constexpr std::string_view kTelling = R"( {}[]",:\u0123456789.-+eEtrufalsn)";
  std::mt19937 random(2);
  int taken = 0;
  for (int round = 0; round < 30'000; ++round) {
    std::string text = whole;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 3);
      } else {
        text[at] = kTelling[random() % kTelling.size()];
      }
    }
    ASSERT_TRUE(alike(text)) << text;
    taken += static_cast<int>(!scanned(text).is_discarded());
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace routeopd::tokenizer
