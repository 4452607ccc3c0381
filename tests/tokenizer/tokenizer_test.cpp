// The tokenizer against goldens of Hugging Face's `tokenizers` (goldens/make_tokenizer_goldens.py), and what
// it refuses by name.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "routeopd/base/fields.h"
#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_lines.h"
#include "testing_files.h"
#include "tokenizer/golden_tokenizers.h"

namespace routeopd::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tokenizer made_of(const Json& file) {
  const TemporaryDirectory directory;
  directory.write("tokenizer.json", file.dump());
  return Tokenizer(directory.path());
}

// The error after `change` to the file.
template <class Change>
std::string error_after(const std::string& name, const Change& change) {
  Json file = golden_json(name);
  change(file);
  return error_of([&] { made_of(file); });
}

class TokenizerGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerGoldens, IdsAndTextsAreThoseOfTokenizers) {
  const Tokenizer tokenizer(golden(GetParam()));
  formats::JsonLines lines((golden(GetParam()) / "cases.jsonl").string());
  ASSERT_TRUE(lines.next()->contains("tokenizers")) << "the first line tells how the file was made";
  int cases = 0;
  while (const auto line = lines.next()) {
    ++cases;
    const auto ids = (*line)["ids"].get<std::vector<std::int32_t>>();
    const std::string text = line->value("text", "");
    if (line->contains("text")) {
      EXPECT_EQ(tokenizer.encode(text), ids) << *line;
      EXPECT_EQ(tokenizer.encode(text, true), line->value("special", ids)) << *line;
    }
    const std::string decoded = line->value("decoded", text);
    EXPECT_EQ(tokenizer.decode(ids), decoded) << *line;
    EXPECT_EQ(tokenizer.decode(ids, true), line->value("plain", decoded)) << *line;
  }
  EXPECT_GE(cases, 200);
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerGoldens,
                         ::testing::Values("words", "trained", "partial", "qwen", "llama2", "llama3",
                                           "smollm", "meta", "flags", "splits"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Tokenizer, LooksUpTokensInTheFilesSpelling) {
  const Tokenizer tokenizer(golden("words"));
  EXPECT_EQ(tokenizer.real_ids(), 256 + 13 + 1);
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 269);
  EXPECT_EQ(tokenizer.token_of(269), "<|endoftext|>");
  EXPECT_EQ(tokenizer.token_of(tokenizer.id_of("Ġapples")), "Ġapples");
  EXPECT_THAT(tokenizer.encode(" apples"), ElementsAre(tokenizer.id_of("Ġapples")));
  EXPECT_EQ(tokenizer.id_of(" apples"), -1);
  EXPECT_EQ(tokenizer.token_of(270), "");
  EXPECT_EQ(tokenizer.token_of(-1), "");
}

TEST(Tokenizer, AnIdInAGapHasNoToken) {
  Json file = golden_json("words");
  file["added_tokens"].clear();
  file["model"]["vocab"]["far"] = 1000;
  const Tokenizer tokenizer = made_of(file);
  EXPECT_EQ(tokenizer.real_ids(), 1001);
  EXPECT_EQ(tokenizer.token_of(999), "");
  EXPECT_THAT(error_of([&] { tokenizer.decode(std::vector<std::int32_t>{999}); }), HasSubstr("got 999"));
}

TEST(Tokenizer, RefusesIdsAndTextThatAreNone) {
  const Tokenizer tokenizer(golden("words"));
  for (const std::int32_t id : {-1, 270, INT32_MIN, INT32_MAX})
    EXPECT_THAT(error_of([&] { tokenizer.decode(std::vector<std::int32_t>{0, id}); }),
                HasSubstr("id: expected one of the tokenizer's, below 270, got"));
  for (const char* bytes : {"ab\xff", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xe2\x82"})
    EXPECT_THAT(error_of([&] { tokenizer.encode(bytes); }), HasSubstr("expected UTF-8, got byte 0x"))
        << bytes;
  EXPECT_THAT(error_of([&] { tokenizer.encode("ab\xff"); }), HasSubstr("0xff at offset 2"));
}

TEST(Tokenizer, RefusesComponentsByName) {
  const auto set = [](const char* pointer, const Json& value) {
    return error_after("trained", [&](Json& file) { file[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_THAT(set("/normalizer", {{"type", "NFKC"}}),
              HasSubstr("tokenizer.json: normalizer: NFKC: expected NFC, Prepend, Replace, Strip or"));
  EXPECT_THAT(set("/normalizer", {{"type", "Lowercase"}}), HasSubstr("got Lowercase"));
  EXPECT_THAT(set("/normalizer", {{"type", "Replace"}, {"content", ""}, {"pattern", {{"Regex", "(a"}}}}),
              HasSubstr("normalizer: Replace: pattern: expected a regular expression, got (a"));
  EXPECT_THAT(set("/normalizer", {{"type", "Strip"}}), HasSubstr("Strip: expected strip_left, got none"));
  EXPECT_THAT(set("/normalizer", 3), HasSubstr("normalizer: expected an object, got number"));
  EXPECT_THAT(set("/truncation", {{"max_length", 5}}), HasSubstr("truncation: expected none"));
  EXPECT_THAT(set("/padding", {{"strategy", "BatchLongest"}}), HasSubstr("padding: expected none"));
  EXPECT_THAT(set("/version", "2.0"), HasSubstr("version: expected 1.0"));
  EXPECT_THAT(set("/decoder", {{"type", "WordPiece"}}), HasSubstr("decoder: WordPiece: expected ByteLevel"));
  EXPECT_THAT(set("/decoder", {{"type", "Metaspace"}, {"replacement", "ab"}}),
              HasSubstr("replacement: expected one character, got ab"));
  EXPECT_THAT(set("/decoder", {{"type", "Replace"}, {"content", ""}, {"pattern", {{"Regex", "a"}}}}),
              HasSubstr("decoder: Replace: pattern: expected {\"String\": …}"));
  EXPECT_THAT(set("/decoder", {{"type", "Strip"}, {"content", "a"}, {"start", -1}, {"stop", 0}}),
              HasSubstr("decoder: Strip: start: expected a whole number"));
  EXPECT_EQ(set("/post_processor", {{"type", "ByteLevel"}, {"trim_offsets", false}}), "");
  EXPECT_THAT(
      set("/post_processor", {{"type", "BertProcessing"}}),
      HasSubstr("post_processor: expected TemplateProcessing, ByteLevel or a Sequence of them, got Bert"));
  EXPECT_THAT(set("/pre_tokenizer", {{"type", "BertPreTokenizer"}}),
              HasSubstr("pre_tokenizer: BertPreTokenizer: expected ByteLevel, Split"));
  EXPECT_THAT(set("/pre_tokenizer", {{"type", "Metaspace"}}), HasSubstr("Metaspace: replacement: expected"));
  EXPECT_THAT(set("/pre_tokenizer", {{"type", "Metaspace"},
                                     {"replacement", "_"},
                                     {"add_prefix_space", false},
                                     {"prepend_scheme", "first"}}),
              HasSubstr("expected prepend_scheme never"));
  EXPECT_THAT(set("/pre_tokenizer/pretokenizers/0", {{"type", "ByteLevel"}}),
              HasSubstr("expected ByteLevel as the last step, got ByteLevel after it"));
  EXPECT_THAT(set("/pre_tokenizer/pretokenizers/0/behavior", "removed"),
              HasSubstr("Split: behavior: expected Removed | Isolated"));
  EXPECT_THAT(set("/pre_tokenizer/pretokenizers/0/invert", nullptr), HasSubstr("expected invert, got none"));
  EXPECT_THAT(set("/pre_tokenizer/pretokenizers/0/pattern", {{"String", ""}}),
              HasSubstr("pattern: expected a string of 1 to"));
  EXPECT_THAT(set("/pre_tokenizer/pretokenizers/0/pattern", "x"), HasSubstr("pattern: expected {\"Regex\""));
  EXPECT_THAT(set("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a"),
              HasSubstr("pattern: expected a regular expression, got (a"));
  EXPECT_THAT(set("/model/type", "Unigram"),
              HasSubstr("model: type: expected BPE, the only one supported, got Unigram"));
  EXPECT_THAT(set("/model/dropout", 0.1), HasSubstr("dropout: expected 0"));
  EXPECT_THAT(set("/model/continuing_subword_prefix", "##"),
              HasSubstr("continuing_subword_prefix: expected"));
  EXPECT_THAT(set("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix: expected"));
  EXPECT_EQ(set("/model/continuing_subword_prefix", ""), "");
  EXPECT_THAT(error_of([] { Tokenizer("no/such/folder"); }), HasSubstr("tokenizer.json: cannot be read"));
}

TEST(Tokenizer, RefusesUnknownTokensThatAreNone) {
  const auto set = [](const char* name, const char* pointer, const Json& value) {
    return error_after(name, [&](Json& file) { file[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_THAT(set("llama2", "/model/unk_token", "<nope>"),
              HasSubstr("model: unk_token: expected a token of the vocabulary, got <nope>"));
  EXPECT_THAT(set("partial", "/model/byte_fallback", true), HasSubstr("byte_fallback: expected false"));
  EXPECT_EQ(set("trained", "/model/byte_fallback", true), "") << "no byte is ever unknown there";
  EXPECT_EQ(set("trained", "/model/unk_token", "<nope>"), "");
}

TEST(Tokenizer, RefusesTemplatesThatAreNone) {
  const auto set = [](const char* pointer, const Json& value) {
    return error_after("llama2", [&](Json& file) { file[Json::json_pointer(pointer)] = value; });
  };
  const Json a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json b = {{"Sequence", {{"id", "B"}, {"type_id", 0}}}};
  const std::string where = "post_processor: TemplateProcessing: ";
  EXPECT_THAT(set("/post_processor/single", Json::array({a, a})),
              HasSubstr(where + "single: expected sequence A once"));
  EXPECT_THAT(set("/post_processor/single", Json::array({b})), HasSubstr("single: expected sequence A once"));
  EXPECT_THAT(set("/post_processor/single", Json::array()), HasSubstr("single: expected sequence A once"));
  EXPECT_THAT(set("/post_processor/special_tokens", Json::object()), HasSubstr("names of special_tokens"));
  EXPECT_THAT(set("/post_processor/special_tokens/<s>/ids/0", 1 << 20),
              HasSubstr("<s>: expected a whole number"));
}

TEST(Tokenizer, RefusesTokensThatTheNormalizerDeletes) {
  EXPECT_THAT(error_after("flags",
                          [](Json& file) {
                            file["added_tokens"][0]["normalized"] = true;  // two spaces
                          }),
              HasSubstr("added_tokens:   : expected a token that the normalizer leaves"));
  EXPECT_THAT(error_after("meta",
                          [](Json& file) {
                            file["normalizer"] = {
                                {"type", "Strip"}, {"strip_left", true}, {"strip_right", false}};
                          }),
              HasSubstr("expected no prepend_scheme first after a normalizer that deletes text"));
}

// A match that is not a single word is plain text as a whole, as in `tokenizers`: no other token is searched
// inside.
TEST(Tokenizer, ATokenThatIsNoSingleWordHidesThoseInside) {
  Json file = golden_json("words");
  Json inner = file["added_tokens"][0];
  Json& outer = file["added_tokens"][0];
  outer["content"] = "<<ab>>";
  outer["single_word"] = true;
  inner["content"] = "b>>";
  inner["id"] = 270;
  file["added_tokens"].push_back(inner);
  const Tokenizer tokenizer = made_of(file);
  EXPECT_THAT(tokenizer.encode("<<ab>>"), ElementsAre(269));
  EXPECT_THAT(tokenizer.encode("xb>>"), ElementsAre(tokenizer.id_of("x"), 270));
  EXPECT_THAT(tokenizer.encode("x<<ab>>"), ::testing::Not(::testing::Contains(::testing::Ge(269))));
}

TEST(Tokenizer, RefusesRepeatedKeys) {
  const auto error = [](const std::string& model, const std::string& rest = "") {
    return error_of([&] {
      Tokenizer::from_json(R"({"version": "1.0", )" + rest + R"("model": {"type": "BPE", )" + model + "}}",
                           "file");
    });
  };
  EXPECT_EQ(error(R"("vocab": {"a": 0}, "merges": [])"), "");
  EXPECT_THAT(error(R"("vocab": {"a": 0, "b": 1, "a": 2}, "merges": [])"),
              HasSubstr("file: model: vocab: expected each key once, got a twice"));
  EXPECT_THAT(error(R"("vocab": {"a": 0}, "merges": [], "vocab": {"b": 0})"), HasSubstr("got vocab twice"));
  EXPECT_THAT(error(R"("vocab": {"a": 0}, "merges": [], "merges": 3)"), HasSubstr("got merges twice"));
  EXPECT_THAT(error(R"("vocab": 3, "vocab": {"a": 0}, "merges": [])"), HasSubstr("got vocab twice"));
  EXPECT_THAT(error(R"("vocab": {"a": 0}, "merges": [])", R"("version": "1.0", )"),
              HasSubstr("got version twice"));
  EXPECT_THAT(error(R"("vocab": {"a": 0}, "merges": [])", R"("x": {"y": [{"z": 1, "z": 2}]}, )"),
              HasSubstr("got z twice"));
  EXPECT_THAT(error(R"("vocab": {"a": 0}, "merges": [])",
                    R"("x": )" + std::string(70, '[') + std::string(70, ']') + ","),
              HasSubstr("expected at most 64 nested levels"));
}

// `tokenizers` itself chooses one or the other from run to run.
TEST(Tokenizer, OfTwoTokensWithOneNormalFormTheSpecialOneCounts) {
  Json file = golden_json("qwen");
  Json token = file["added_tokens"][0];
  token["normalized"] = true;
  for (const auto& [content, special] : {std::pair("a\u0323\u0302", false), std::pair("\u1ead", true)}) {
    token["content"] = content;
    token["special"] = special;
    token["id"] = 408 + static_cast<int>(special);
    file["added_tokens"].push_back(token);
  }
  EXPECT_THAT(made_of(file).encode("\u1eada\u0323\u0302"), ElementsAre(409, 409));
}

TEST(Tokenizer, TellsWhatItIs) {
  EXPECT_EQ(Tokenizer(golden("qwen")).description(),
            "byte-level BPE, 400 tokens, 144 merges, NFC, 8 added tokens");
  EXPECT_EQ(Tokenizer(golden("words")).description(), "byte-level BPE, 269 tokens, 0 merges, 1 added token");
  const Tokenizer flags(golden("flags"));
  const std::vector<AddedToken>& added = flags.added_tokens();
  ASSERT_EQ(added.size(), 33U);
  for (std::size_t i = 0; i < 32; ++i) {  // every combination of flags, then one more token
    EXPECT_EQ(added[i].id, 300 + static_cast<std::int32_t>(i));
    EXPECT_EQ(added[i].single_word, (i & 16U) != 0);
    EXPECT_EQ(added[i].lstrip, (i & 8U) != 0);
    EXPECT_EQ(added[i].rstrip, (i & 4U) != 0);
    EXPECT_EQ(added[i].normalized, (i & 2U) != 0);
    EXPECT_EQ(added[i].special, (i & 1U) != 0);
  }
  EXPECT_EQ(added[31].content, "word");
}

TEST(Tokenizer, RefusesTablesThatContradictThemselves) {
  const auto set = [](const char* pointer, const Json& value) {
    return error_after("words", [&](Json& file) { file[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_THAT(set("/model/vocab/a", -1), HasSubstr("vocab: a: expected a whole number"));
  EXPECT_THAT(set("/model/vocab/a", 1 << 24), HasSubstr("vocab: a: expected a whole number"));
  EXPECT_THAT(set("/model/vocab/a", "x"), HasSubstr("vocab: a: expected a whole number"));
  EXPECT_THAT(set("/model/vocab/a", 0), HasSubstr("vocab: expected each id once, got 0"));
  EXPECT_THAT(set("/model/vocab", Json::array()), HasSubstr("vocab: expected an object"));
  EXPECT_THAT(set("/model/merges", Json::array({Json::array({"a", "b"})})),
              HasSubstr("merges: expected tokens of the vocabulary, got [\"a\",\"b\"]"));
  for (const Json& merge : {Json("a"), Json("a b c"), Json(3), Json::array({"a"}), Json::array({"a", 1})})
    EXPECT_THAT(set("/model/merges", Json::array({merge})),
                HasSubstr("merges: expected [\"a\", \"b\"] or \"a b\""))
        << merge;
  EXPECT_THAT(set("/added_tokens/0/id", 268),
              HasSubstr("<|endoftext|>: id: expected 269, as `tokenizers` counts, got 268"));
  EXPECT_THAT(set("/added_tokens/0/content", ""), HasSubstr("content: expected a string of 1 to"));
  EXPECT_THAT(set("/added_tokens/0/content", "Hello"), HasSubstr("Hello: id: expected 256"));
  EXPECT_THAT(set("/added_tokens/0/special", nullptr), HasSubstr("expected special, got none"));
  EXPECT_THAT(
      error_after("words", [](Json& file) { file["added_tokens"].push_back(file["added_tokens"][0]); }),
      HasSubstr("added_tokens: expected each token once"));
  EXPECT_THAT(error_after("words", [](Json& file) { file["model"]["vocab"]["x y"] = 270; }),
              HasSubstr("expected an id of its own, got 270, which is x y's"));
}

// A word of 100 kB: a merge loop that searches the whole word for each merge takes 10^10 steps.
TEST(Tokenizer, ALongWordTakesNoTimeAtAll) {
  Json file = golden_json("words");
  file["added_tokens"].clear();
  file["model"]["ignore_merges"] = false;
  std::string run = "a";
  for (int id = 300; id < 306; ++id, run += run) {  // aa, aaaa, …, 64 times a
    file["model"]["vocab"][run + run] = id;
    file["model"]["merges"].push_back({run, run});
  }
  const Tokenizer tokenizer = made_of(file);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::int32_t> ids = tokenizer.encode(std::string(100'000, 'a'));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(ids.size(), 100'000U / 64 + 1) << "100,000 = 1562 * 64 + 32";
  EXPECT_EQ(ids.front(), 305);
  EXPECT_EQ(ids.back(), 304);
}

TEST(Tokenizer, APatternThatRunsAwayIsStopped) {
  Json file = golden_json("trained");
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a|aa)+$";
  const Tokenizer tokenizer = made_of(file);
  EXPECT_THAT(error_of([&] { tokenizer.encode(std::string(60, 'a') + "b"); }),
              HasSubstr("split pattern: expected a short search, got stopped by its bounds"));
}

TEST(Tokenizer, ThreadsMayShareOne) {
  const Tokenizer tokenizer(golden("trained"));
  const std::string text = "The teacher's 12 answers<|im_end|>\n\n数学の問題を解く。";
  const std::vector<std::int32_t> expected = tokenizer.encode(text);
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int& count : wrong)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i)
          count += tokenizer.encode(text) != expected || tokenizer.decode(expected) != text;
      });
  }
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(Tokenizer, AnyDamageIsAUserErrorOrATokenizer) {
  const TemporaryDirectory directory;
  const std::string whole = bytes_in(golden("partial") / "tokenizer.json");
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bytes = whole;
    for (auto flips = 1 + random() % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 4 == 0 ? random() : ' ' + random() % 95);
    if (random() % 16 == 0) bytes.resize(random() % bytes.size());
    directory.write("tokenizer.json", bytes);
    try {
      const Tokenizer tokenizer(directory.path());
      EXPECT_EQ(find_invalid_utf8(tokenizer.decode(tokenizer.encode("Hello, 12 'world'<|endoftext|>\n é"))),
                std::string::npos);
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 400);
}

// The examples of the Unicode standard, section 3.9, "U+FFFD substitution of maximal subparts".
TEST(Utf8, EachBrokenPieceBecomesOneReplacement) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(lossy_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                       "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(lossy_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                       "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(lossy_utf8("\xF4\x91\x92\x93\xFF"
                       "A\x80\xBF"
                       "B"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(lossy_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                       "A"),
            r + r + r + r + "A");
  EXPECT_EQ(lossy_utf8("ü€🙂"), "ü€🙂");
  EXPECT_EQ(find_invalid_utf8("ü€🙂\xe2\x82"), 9U);
}

}  // namespace
}  // namespace routeopd::tokenizer
