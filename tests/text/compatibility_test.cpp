// The compatibility gate: every check passes on an equal pair and names the first difference of another.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/compatibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "routeopd/base/fields.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "testing_files.h"

namespace routeopd::text {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";

std::filesystem::path golden(const std::string& path) {
  return std::filesystem::path(ROUTEOPD_TEST_DATA) / "goldens" / path;
}

// A student and a teacher with the same files, until a test changes one of the teacher's.
class Gate : public ::testing::Test {
 protected:
  Gate() {
    config_ = Json::parse(bytes_in(golden("architectures/qwen2/config.json")));
    config_["vocab_size"] = 2000;
    tokenizer_ = Json::parse(bytes_in(golden("tokenizer/qwen/tokenizer.json")));
    tokenizer_config_ = {{"eos_token", "<|im_end|>"}, {"chat_template", kTemplate}};
    write("student");
  }

  void write(const std::string& who) const {
    std::filesystem::create_directory(directory_.path() / who);
    directory_.write(who + "/config.json", config_.dump());
    directory_.write(who + "/tokenizer.json", tokenizer_.dump());
    directory_.write(who + "/tokenizer_config.json", tokenizer_config_.dump());
  }

  Compatibility checked() const {
    write("teacher");
    return check_compatibility(directory_.path() / "student", directory_.path() / "teacher");
  }

  // The detail of one check, "" if it passed; the overall result must agree.
  std::string failure(const std::string& name) const {
    const Compatibility pair = checked();
    EXPECT_EQ(pair.passed(), pair.first_difference().empty());
    for (const CompatibilityCheck& check : pair.checks) {
      if (check.name == name) {
        EXPECT_FALSE(check.detail.empty());
        EXPECT_TRUE(check.passed || !pair.passed());
        return check.passed ? "" : check.detail;
      }
    }
    ADD_FAILURE() << "no check " << name;
    return "";
  }

  TemporaryDirectory directory_;
  Json config_, tokenizer_, tokenizer_config_;
};

TEST_F(Gate, PassesThePairThatAgrees) {
  const Compatibility pair = checked();
  EXPECT_TRUE(pair.passed()) << pair.first_difference();
  EXPECT_EQ(pair.checks.size(), 8U);
}

TEST_F(Gate, PaddedWidthsMayDiffer) {
  config_["vocab_size"] = 2048;
  EXPECT_TRUE(checked().passed()) << checked().first_difference();
  config_["vocab_size"] = 100;
  EXPECT_THAT(failure("widths"), HasSubstr("the teacher's embedding has 100 rows for a tokenizer of"));
}

TEST_F(Gate, ComparesTheOrderedVocabulary) {
  Json& vocabulary = tokenizer_["model"]["vocab"];
  std::swap(vocabulary["!"], vocabulary["\""]);
  EXPECT_THAT(failure("vocabulary"), HasSubstr(" is \"!\" to the student and \"\\\"\" to the teacher"));
  EXPECT_EQ(failure("added_tokens"), "");
}

TEST_F(Gate, ComparesTheNumberOfIds) {
  Json more = tokenizer_["added_tokens"].back();
  more["id"] = more["id"].get<int>() + 1;
  more["content"] = "<more>";
  tokenizer_["added_tokens"].push_back(more);
  EXPECT_THAT(failure("vocabulary"), HasSubstr("the teacher's \"<more>\""));
  EXPECT_THAT(failure("added_tokens"), HasSubstr("\"<more>\" (id "));
  EXPECT_THAT(failure("added_tokens"), HasSubstr("is an added token of the teacher alone"));
}

TEST_F(Gate, ComparesTheFlagsOfAddedTokens) {
  tokenizer_["added_tokens"].front()["lstrip"] = !tokenizer_["added_tokens"].front()["lstrip"].get<bool>();
  EXPECT_THAT(failure("added_tokens"), HasSubstr("with the student and"));
  EXPECT_THAT(failure("added_tokens"), HasSubstr("lstrip"));
  EXPECT_EQ(failure("vocabulary"), "");
}

TEST_F(Gate, ComparesSpecialTokens) {
  tokenizer_config_["eos_token"] = "<|endoftext|>";
  EXPECT_THAT(failure("special_ids"), HasSubstr("eos_token is \"<|im_end|>\" (id "));
  tokenizer_config_.erase("eos_token");
  EXPECT_THAT(failure("special_ids"), HasSubstr("and none for the teacher"));
}

TEST_F(Gate, ComparesWhereAResponseEnds) {
  config_["eos_token_id"] = {3, 2};
  EXPECT_THAT(failure("eos_ids"), HasSubstr("the student ends a response at 2, the teacher at 2, 3"));
  config_["eos_token_id"] = {2, 2};  // the same set
  EXPECT_EQ(failure("eos_ids"), "");
}

TEST_F(Gate, ComparesTemplates) {
  tokenizer_config_["chat_template"] = std::string(kTemplate) + "x";
  EXPECT_THAT(failure("template"), HasSubstr("default, line 3: "));
  EXPECT_THAT(failure("chats"), HasSubstr("\"a problem\": token"));
  // A template that renders the same is distinguished by its text alone.
  tokenizer_config_["chat_template"] = std::string(kTemplate) + "{# the same #}";
  EXPECT_THAT(failure("template"), HasSubstr("line 3: \"{% endfor %}\" with the student"));
  EXPECT_EQ(failure("chats"), "");
  tokenizer_config_.erase("chat_template");
  EXPECT_THAT(failure("template"), HasSubstr("the student alone has a chat template"));
}

TEST_F(Gate, AChatThatOneTemplateRefusesIsADifference) {
  tokenizer_config_["chat_template"] =
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" +
      std::string(kTemplate);
  EXPECT_THAT(failure("chats"),
              HasSubstr("\"a system message and two turns\": the teacher's template refuses it ("));
  EXPECT_THAT(failure("chats"), HasSubstr("no system"));
  write("student");
  EXPECT_TRUE(checked().passed()) << checked().first_difference();
  // A template that refuses everything agrees with itself and is useless.
  tokenizer_config_["chat_template"] = "{{ raise_exception('never') }}";
  write("student");
  EXPECT_THAT(failure("chats"), HasSubstr("both templates refuse every chat"));
}

// The same vocabulary with another normalizer: only the suite shows the difference.
TEST_F(Gate, ComparesTheIdsOfChats) {
  tokenizer_["normalizer"] = nullptr;
  EXPECT_THAT(failure("chats"), HasSubstr("\"scripts, signs and joined emoji\": token"));
  EXPECT_EQ(failure("vocabulary"), "");
  EXPECT_EQ(failure("added_tokens"), "");
}

TEST_F(Gate, ComparesMergesAndSteps) {
  Json& merges = tokenizer_["model"]["merges"];
  const Json last = merges.back();
  merges.erase(merges.size() - 1);
  EXPECT_THAT(failure("pipeline"), HasSubstr("and \"none\" for the teacher"));
  merges.push_back(last[0].get<std::string>() + " " +
                   last[1].get<std::string>());  // the older form of the same
  EXPECT_EQ(failure("pipeline"), "");
  tokenizer_["model"]["ignore_merges"] = true;
  EXPECT_THAT(failure("pipeline"), HasSubstr("ignore_merges is"));
  tokenizer_["model"]["ignore_merges"] = false;
  tokenizer_["decoder"] = {{"type", "Sequence"}, {"decoders", {tokenizer_["decoder"]}}};
  EXPECT_THAT(failure("pipeline"), HasSubstr("decoder is"));
}

// transformers would add such tokens to the tokenizer.
TEST_F(Gate, RefusesTokensThatTheTokenizerHasNot) {
  const auto refusal = [&](const std::string& file, const Json& content) {
    write("teacher");
    directory_.write("teacher/" + file, content.dump());
    std::string sentence = error_of([&] { tokenizer::Tokenizer(directory_.path() / "teacher"); });
    std::filesystem::remove(directory_.path() / "teacher" / file);
    return sentence;
  };
  EXPECT_THAT(refusal("tokenizer_config.json", {{"eos_token", "<|nowhere|>"}}),
              HasSubstr("eos_token: expected an added token of tokenizer.json, got <|nowhere|>"));
  EXPECT_THAT(refusal("tokenizer_config.json", {{"eos_token", "a"}}),
              HasSubstr("got a, which transformers would add"));
  EXPECT_THAT(refusal("tokenizer_config.json", {{"additional_special_tokens", {"<|nowhere|>"}}}),
              HasSubstr("additional_special_tokens: expected an added token"));
  EXPECT_THAT(
      refusal("tokenizer_config.json", {{"added_tokens_decoder", {{"400", {{"content", "<|nowhere|>"}}}}}}),
      HasSubstr("added_tokens_decoder: expected an added token"));
  EXPECT_THAT(
      refusal("tokenizer_config.json", {{"added_tokens_decoder", {{"401", {{"content", "<|endoftext|>"}}}}}}),
      HasSubstr("expected <|endoftext|> to have id 400 as in tokenizer.json, got 401"));
  EXPECT_THAT(refusal("added_tokens.json", {{"<|nowhere|>", 408}}),
              HasSubstr("added_tokens.json: expected an added"));
  EXPECT_EQ(refusal("added_tokens.json", {{"<|endoftext|>", 400}}), "");
}

TEST_F(Gate, DoesWithTokenizerFilesAlone) {
  tokenizer_config_ = Json::object();
  write("student");
  write("teacher");
  std::filesystem::remove(directory_.path() / "student/config.json");
  const Compatibility pair =
      check_compatibility(directory_.path() / "student", directory_.path() / "teacher");
  EXPECT_TRUE(pair.passed()) << pair.first_difference();
  EXPECT_THAT(error_of([&] { check_compatibility(directory_.path() / "nowhere", directory_.path()); }),
              HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace routeopd::text
