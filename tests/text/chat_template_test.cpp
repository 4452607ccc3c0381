// Chats against goldens of transformers (goldens/make_template_goldens.py), and the templates of model
// directories.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/formats/ordered_json.h"
#include "routeopd/text/chat_template_files.h"
#include "testing_files.h"

namespace routeopd::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const OrderedJson& goldens() {
  static const OrderedJson read =
      OrderedJson::parse(bytes_in(std::filesystem::path(ROUTEOPD_TEST_DATA) / "goldens" / "templates.json"));
  return read;
}

OrderedJson user(const std::string& content) {
  return OrderedJson::array({{{"role", "user"}, {"content", content}}});
}

class ChatGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(ChatGoldens, TextsAreThoseOfTransformers) {
  const ChatTemplate chat_template(goldens()["families"][GetParam()].get<std::string>(),
                                   goldens()["family_variables"]);
  int texts = 0;
  int errors = 0;
  for (const OrderedJson& each : goldens()["rendered"]) {
    if (each["family"] != GetParam()) continue;
    const auto name = each["chat"].get<std::string>();
    const OrderedJson& chat = goldens()["chats"][name];
    const auto render = [&] {
      return chat_template.render(chat["messages"], chat.value("options", OrderedJson::object()));
    };
    if (each.contains("raises")) {
      ++errors;
      EXPECT_NE(error_of(render), "") << name;
      continue;
    }
    ++texts;
    try {
      EXPECT_EQ(render(), each["text"].get<std::string>()) << name;
    } catch (const UserError& error) {
      ADD_FAILURE() << name << " threw " << error.what();
    }
  }
  EXPECT_GT(texts, 12);
  EXPECT_GT(errors, 2);
}

INSTANTIATE_TEST_SUITE_P(Families, ChatGoldens,
                         ::testing::Values("thinking_tools", "plain_loop", "headers_and_date", "instructions",
                                           "distilled", "turns_of_parts", "role_tags", "typed_tools"),
                         [](const auto& each) { return std::string(each.param); });

TEST(ChatTemplate, NoToolsAreNotAnEmptyList) {
  const ChatTemplate shown("{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ other is defined }}");
  EXPECT_EQ(shown.render(user("x")), "NoneNoneFalseFalse");
  EXPECT_EQ(shown.render(user("x"), {{"tools", OrderedJson::array()}, {"other", nullptr}}),
            "[]NoneFalseTrue");
}

TEST(ChatTemplate, OptionsWinOverVariables) {
  const ChatTemplate shown("{{ bos_token }}{{ eos_token }}", {{"bos_token", "a"}, {"eos_token", "b"}});
  EXPECT_EQ(shown.render(user("x"), {{"bos_token", "c"}}), "cb");
  EXPECT_EQ(shown.source(), "{{ bos_token }}{{ eos_token }}");
}

TEST(ChatTemplate, ReasoningGoesByEveryName) {
  const ChatTemplate shown("{{ messages[0] }}");
  const auto with = [&](const char* name) {
    return shown.render(OrderedJson::array({{{"role", "assistant"}, {name, "r"}, {"content", "c"}}}));
  };
  EXPECT_EQ(with("reasoning_content"),
            "{'thinking': 'r', 'role': 'assistant', 'reasoning_content': 'r', 'content': 'c'}");
  EXPECT_EQ(with("thinking"),
            "{'thinking': 'r', 'role': 'assistant', 'content': 'c', 'reasoning_content': 'r'}");
  EXPECT_EQ(
      with("reasoning"),
      "{'thinking': 'r', 'role': 'assistant', 'reasoning': 'r', 'content': 'c', 'reasoning_content': 'r'}");
}

TEST(ChatTemplate, RefusesWhatIsNoChat) {
  const ChatTemplate any("x");
  const auto error_with = [&](const OrderedJson& messages,
                              const OrderedJson& options = OrderedJson::object()) {
    return error_of([&] { any.render(messages, options); });
  };
  EXPECT_THAT(error_with(OrderedJson::array()), HasSubstr("at least one message"));
  EXPECT_THAT(error_with("text"), HasSubstr("messages: expected a list, got string"));
  EXPECT_THAT(error_with(OrderedJson::array({"text"})), HasSubstr("messages: expected objects, got string"));
  EXPECT_THAT(error_with(user("x"), {{"tools", {{"name", "f"}}}}),
              HasSubstr("tools: expected a list, got object"));
  EXPECT_THAT(error_with(user("x"), {{"tools", {1}}}), HasSubstr("tools: expected objects, got number"));
  EXPECT_THAT(error_with(user("x"), {{"documents", {1}}}), HasSubstr("documents: expected objects"));
  EXPECT_THAT(error_with(user("x"), {{"tokenize", false}}), HasSubstr("tokenize is not an option of templates"));
  EXPECT_THAT(error_with(user("x"), OrderedJson::array()), HasSubstr("template options: expected an object"));
  EXPECT_THAT(error_with(user("a\xff")), HasSubstr("messages: expected UTF-8"));
}

TEST(ChatTemplate, ContinuesTheLastMessage) {
  const ChatTemplate trimmed("{% for m in messages %}<{{ m.content|trim }}>{% endfor %}");
  EXPECT_EQ(trimmed.render(user(" go on "), {{"continue_final_message", true}}), "<go on");
  const ChatTemplate whole("{% for m in messages %}<{{ m.content }}>{% endfor %}");
  EXPECT_EQ(whole.render(user(" go on "), {{"continue_final_message", true}}), "< go on ");
  const ChatTemplate dropping("{{ messages|length }} content");
  EXPECT_THAT(error_of([&] { dropping.render(user("x"), {{"continue_final_message", true}}); }),
              HasSubstr("the template drops it"));
  EXPECT_THAT(error_of([&] { whole.render(user("x"), {{"continue_final_message", "other"}}); }),
              HasSubstr("expected other in the last message"));
}

TEST(OrderedJsonText, KeepsOrderAndRefusesWhatReadersReadDifferently) {
  EXPECT_EQ(formats::parse_ordered_json(R"({"b": 1, "a": [1.5, {"d": null, "c": "é"}]})", "x").dump(),
            R"({"b":1,"a":[1.5,{"d":null,"c":"é"}]})");
  const auto error_with = [](std::string_view text) {
    return error_of([&] { formats::parse_ordered_json(text, "line 3"); });
  };
  EXPECT_EQ(error_with(R"({"a": 1, "a": 2})"), "line 3: expected each key once, got a twice");
  EXPECT_EQ(error_with(R"({"a": {"a": 1}, "b": {"a": 2}})"), "");
  EXPECT_THAT(error_with("[99999999999999999999]"), HasSubstr("64 bits, got 99999999999999999999"));
  EXPECT_EQ(error_with("[9223372036854775807, 1e30]"), "");
  EXPECT_THAT(error_with("[1,]"), HasSubstr("line 3: expected JSON"));
  EXPECT_THAT(error_with("[1] 2"), HasSubstr("line 3: expected JSON"));
  EXPECT_THAT(error_with(std::string_view("[1]\0", 4)), HasSubstr("zero byte"));
  EXPECT_THAT(error_with(std::string(300, '[')), HasSubstr("nested levels"));
}

TEST(ChatTemplateFiles, FindsTheTemplateWhereTransformersDoes) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(read_chat_templates(directory.path()));
  directory.write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_FALSE(read_chat_templates(directory.path()));
  directory.write("tokenizer_config.json",
                  R"({"chat_template": "config {{ eos_token }}", "eos_token": "E"})");
  EXPECT_EQ(read_chat_templates(directory.path())->render(user("x")), "config E");
  directory.write("chat_template.jinja", "file {{ eos_token }}\n");
  EXPECT_EQ(read_chat_templates(directory.path())->render(user("x")), "file E");
  EXPECT_EQ(read_chat_templates(directory.path())->render(user("x"), {{"tools", OrderedJson::array()}}),
            "file E");
  std::filesystem::create_directory(directory.path() / "additional_chat_templates");
  directory.write("additional_chat_templates/tool_use.jinja", "tools");
  directory.write("additional_chat_templates/other.jinja", "other");
  const auto several = read_chat_templates(directory.path());
  EXPECT_THAT(several->names(), ElementsAre("default", "other", "tool_use"));
  EXPECT_EQ(several->render(user("x")), "file E");
  EXPECT_EQ(several->render(user("x"), {{"tools", nullptr}}), "file E");
  EXPECT_EQ(several->render(user("x"), {{"tools", OrderedJson::array()}}), "tools");
  EXPECT_EQ(several->render(user("x"), {{"chat_template", "other"}, {"tools", OrderedJson::array()}}),
            "other");
  EXPECT_THAT(error_of([&] { several->render(user("x"), {{"chat_template", "none"}}); }),
              HasSubstr("one of the model's templates (default, other, tool_use)"));
}

TEST(ChatTemplateFiles, ChoosesAmongNamedTemplates) {
  const TemporaryDirectory directory;
  directory.write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "d"},
      {"name": "tool_use", "template": "t"}, {"name": "broken", "template": "{{"}]})");
  const auto named = read_chat_templates(directory.path());
  EXPECT_EQ(named->render(user("x")), "d");
  EXPECT_EQ(named->render(user("x"), {{"tools", OrderedJson::array()}}), "t");
  EXPECT_THAT(error_of([&] { named->render(user("x"), {{"chat_template", "broken"}}); }),
              HasSubstr("line 1"));
  directory.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"}]})");
  EXPECT_THAT(error_of([&] { read_chat_templates(directory.path())->render(user("x")); }),
              HasSubstr("(rag)"));
  directory.write("tokenizer_config.json", R"({"chat_template": "\n{{"})");
  EXPECT_THAT(error_of([&] { read_chat_templates(directory.path()); }), HasSubstr("chat template, line 2"));
  directory.write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THAT(error_of([&] { read_chat_templates(directory.path()); }),
              HasSubstr("tokenizer_config.json: chat_template: expected a text or a list"));
}

TEST(ChatTemplateFiles, SpecialTokensAreThoseOfTransformers) {
  const TemporaryDirectory directory;
  directory.write(
      "chat_template.jinja",
      "{{ [bos_token, eos_token, unk_token, image_token, boi_token, added_token, add_bos_token] }}");
  directory.write("tokenizer_config.json",
                  R"({"bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>",
      "unk_token": null, "add_bos_token": true, "image_token": "<i>",
      "extra_special_tokens": {"boi_token": "<b>"}})");
  EXPECT_EQ(read_chat_templates(directory.path())->render(user("x")),
            "['<s>', '</s>', Undefined, '<i>', '<b>', Undefined, Undefined]");
  directory.write("special_tokens_map.json",
                  R"({"eos_token": {"content": "<e>", "lstrip": false}, "unk_token": "<u>",
      "additional_special_tokens": ["<x>"]})");
  EXPECT_EQ(read_chat_templates(directory.path())->render(user("x")),
            "['<s>', '<e>', '<u>', '<i>', '<b>', Undefined, Undefined]");
  directory.write("tokenizer_config.json", R"({"eos_token": "</s>", "added_tokens_decoder": {}})");
  EXPECT_EQ(read_chat_templates(directory.path())->render(user("x")),
            "[Undefined, '</s>', Undefined, Undefined, Undefined, Undefined, Undefined]");
  directory.write("tokenizer_config.json", R"({"eos_token": 5})");
  std::filesystem::remove(directory.path() / "special_tokens_map.json");
  EXPECT_THAT(error_of([&] { read_chat_templates(directory.path()); }),
              HasSubstr("eos_token: expected a token's text"));
}

}  // namespace
}  // namespace routeopd::text
