// Files of prompts: what a line may say of its teacher, and everything that is refused, with its line.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "testing_files.h"

namespace routeopd::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The laboratory's tokenizer, and two directories whose chat templates differ.
struct PromptFile : ::testing::Test {
  TemporaryDirectory directory;
  tokenizer::Tokenizer tokenizer{std::filesystem::path(ROUTEOPD_TEST_DATA).parent_path() / "lab" / "base"};
  PromptTemplate words{"raw", with_chat("student", "S:{{ messages[-1].content }}")};
  PromptTeachers one = [this] {
    PromptTeachers teachers;
    teachers.all.push_back({"", PromptTemplate("raw", with_chat("teacher",
                                                                "T:{{ messages[-1].content }}"
                                                                "{% if deep %} deep{% endif %}"
                                                                "{% if tools %} tools{% endif %}"))});
    return teachers;
  }();

  std::filesystem::path with_chat(const std::string& name, const std::string& chat) const {
    std::filesystem::create_directories(directory.path() / name);
    directory.write(name + "/chat_template.jinja", chat);
    return directory.path() / name;
  }

  std::vector<Prompt> read(const std::string& lines, const PromptTeachers* teachers) const {
    return read_prompts(directory.write("prompts.jsonl", lines).string(), words, &tokenizer, -1, teachers);
  }
  Prompt read_one(const std::string& line) const { return read(line + "\n", &one).at(0); }
  std::string refusal(const std::string& line, const PromptTeachers* teachers) const {
    return error_of(
        [&] { read("{\"prompt\": \"first\", \"teacher\": \"math\"}\n" + line + "\n", teachers); });
  }
};

TEST_F(PromptFile, TheTeacherReadsTheSamePromptUnlessALineSaysOtherwise) {
  for (const char* line :
       {R"({"problem": "2 + 2"})", R"({"messages": [{"role": "user", "content": "2 + 2"}]})",
        R"({"prompt": "2 + 2"})", R"({"prompt_ids": [5, 6]})"}) {
    const Prompt prompt = read_one(line);
    EXPECT_FALSE(prompt.ids.empty());
    EXPECT_THAT(prompt.teacher_ids, IsEmpty()) << line;
    EXPECT_THAT(prompt.teacher_text, IsEmpty()) << line;
    EXPECT_EQ(prompt.teacher, 0);
  }
  const Prompt same = read_one(R"({"prompt": "2 + 2", "teacher_prompt": "2 + 2"})");
  EXPECT_THAT(same.teacher_ids, IsEmpty()) << "the same ids are no other prompt";
  EXPECT_THAT(same.teacher_text, IsEmpty());
}

// Every kind of the student's prompt with every kind of the teacher's.
TEST_F(PromptFile, EveryKindOfTeachersPromptGoesWithEveryKindOfPrompt) {
  for (const char* asked : {R"("problem": "2 + 2")", R"("messages": [{"role": "user", "content": "2 + 2"}])",
                            R"("prompt": "2 + 2")", R"("prompt_ids": [5, 6])"}) {
    const auto with = [&](const std::string& more) {
      return read_one(fmt::format("{{{}, {}}}", asked, more));
    };
    const Prompt alone = read_one(fmt::format("{{{}}}", asked));
    const Prompt text = with(R"("teacher_prompt": "2 + 2 is 4")");
    EXPECT_EQ(text.ids, alone.ids);
    EXPECT_EQ(text.text, alone.text);
    EXPECT_EQ(text.teacher_text, "2 + 2 is 4");
    EXPECT_EQ(text.teacher_ids, tokenizer.encode("2 + 2 is 4", true));
    const Prompt ids = with(R"("teacher_prompt_ids": [7, 8, 9])");
    EXPECT_EQ(ids.ids, alone.ids);
    EXPECT_EQ(ids.teacher_ids, (std::vector<std::int32_t>{7, 8, 9}));
    EXPECT_THAT(ids.teacher_text, IsEmpty());
    const Prompt chat = with(R"("teacher_messages": [{"role": "user", "content": "4"}])");
    EXPECT_EQ(chat.ids, alone.ids);
    EXPECT_EQ(chat.teacher_text, "T:4") << "the teacher's own template";
    EXPECT_EQ(chat.teacher_ids, tokenizer.encode("T:4", false));
  }
}

TEST_F(PromptFile, TheTeachersChatHasItsOwnOptionsOrThoseOfTheLine) {
  const std::string chat = R"({"prompt": "x", "teacher_messages": [{"role": "user", "content": "4"}])";
  EXPECT_EQ(read_one(chat + R"(, "template": {"deep": true}})").teacher_text, "T:4 deep");
  EXPECT_EQ(
      read_one(chat + R"(, "template": {"deep": true}, "teacher_template": {"deep": false}})").teacher_text,
      "T:4");
  EXPECT_EQ(read_one(chat + R"(, "teacher_template": {"deep": true}})").teacher_text, "T:4 deep");
  EXPECT_EQ(read_one(chat + R"(, "tools": [{"name": "sum"}]})").teacher_text, "T:4 tools");
}

TEST_F(PromptFile, WithoutTeachersNothingIsReadOfThem) {
  const auto prompts = read(R"({"prompt": "x", "teacher": 3, "teacher_prompt": 4, "teacher_messages": 5})"
                            "\n",
                            nullptr);
  EXPECT_THAT(prompts.at(0).teacher_ids, IsEmpty());
}

TEST_F(PromptFile, ATeachersPromptThatCannotBeReadIsNamedWithItsLine) {
  PromptTeachers named = one;
  named.all.front().name = "math";
  const auto refused = [&](const std::string& line) { return refusal(line, &named); };
  const std::string start = R"({"prompt": "x", "teacher": "math", )";
  EXPECT_THAT(
      refused(start + R"("teacher_prompt": "a", "teacher_prompt_ids": [1]})"),
      AllOf(HasSubstr("prompts.jsonl:2: "),
            HasSubstr("expected one kind of teacher's prompt, got teacher_prompt and teacher_prompt_ids")));
  EXPECT_THAT(refused(start + R"("teacher_prompt": "a", "teacher_messages": []})"),
              HasSubstr("got teacher_messages and teacher_prompt"));
  EXPECT_THAT(refused(start + R"("teacher_prompt": 7})"), HasSubstr("teacher_prompt: expected text, got 7"));
  EXPECT_THAT(refused(start + R"("teacher_prompt": ""})"), HasSubstr("the teacher's prompt has no tokens"));
  EXPECT_THAT(refused(start + R"("teacher_prompt_ids": []})"),
              HasSubstr("the teacher's prompt has no tokens"));
  EXPECT_THAT(refused(start + R"("teacher_prompt_ids": [1, -2]})"), HasSubstr("teacher_prompt_ids: "));
  EXPECT_THAT(refused(start + R"("teacher_messages": "hello"})"),
              HasSubstr("teacher_messages: expected a list of {\"role\", \"content\"}, got string"));
  EXPECT_THAT(refused(start + R"("teacher_template": {}})"),
              HasSubstr("teacher_template: expected teacher_messages beside it"));
  EXPECT_THAT(refused(start + R"("teacher_messages": [], "teacher_template": 4})"),
              HasSubstr("template: expected an object of options, got number"));
  named.all.front().chat = PromptTemplate("raw");
  EXPECT_THAT(refused(start + R"("teacher_messages": []})"),
              HasSubstr("teacher_messages: no model's directory has a chat template; give teacher_prompt or "
                        "teacher_prompt_ids"));
  const std::string file =
      directory.write("ids.jsonl", R"({"prompt_ids": [1], "teacher_prompt": "a"})").string();
  EXPECT_THAT(error_of([&] { read_prompts(file, words, nullptr, -1, &one); }),
              HasSubstr("text needs a tokenizer, and the model directory has none; give teacher_prompt_ids"));
}

TEST_F(PromptFile, ALineNamesItsTeacherOrHasTheUsualOne) {
  PromptTeachers two = one;
  two.all.front().name = "code";
  two.all.push_back({"math", PromptTemplate("raw", with_chat("math", "M:{{ messages[-1].content }}"))});
  const std::string chat = R"("teacher_messages": [{"role": "user", "content": "4"}])";
  const auto prompts = read(R"({"prompt": "x", "teacher": "math", )" + chat + "}\n" +
                                R"({"prompt": "y", "teacher": "code", )" + chat + "}\n",
                            &two);
  EXPECT_EQ(prompts.at(0).teacher, 1);
  EXPECT_EQ(prompts.at(0).teacher_text, "M:4") << "through the template of the teacher it names";
  EXPECT_EQ(prompts.at(1).teacher, 0);
  EXPECT_EQ(prompts.at(1).teacher_text, "T:4");
  EXPECT_THAT(refusal(R"({"prompt": "x"})", &two),
              AllOf(HasSubstr("prompts.jsonl:2: teacher: missing; expected one of code, math"),
                    HasSubstr("[teachers] default")));
  EXPECT_THAT(refusal(R"({"prompt": "x", "teacher": "maths"})", &two),
              HasSubstr("prompts.jsonl:2: teacher: expected one of code, math, got maths"));
  EXPECT_THAT(refusal(R"({"prompt": "x", "teacher": 1})", &two), HasSubstr("teacher: expected text, got 1"));
  two.usual = "math";
  EXPECT_EQ(read(R"({"prompt": "x"})", &two).at(0).teacher, 1);
  EXPECT_EQ(read(R"({"prompt": "x", "teacher": "code"})", &two).at(0).teacher, 0);
  EXPECT_THAT(error_of([&] { read(R"({"prompt": "x", "teacher": "math"})", &one); }),
              HasSubstr("teacher: got math, and the recipe has one teacher without a name; expected "
                        "[teachers.math]"));
}

}  // namespace
}  // namespace routeopd::text
