// Prompt files: JSONL of {"id", "problem" | "messages" | "prompt" | "prompt_ids", "answer"?, "response"?,
// "teacher_messages" | "teacher_prompt" | "teacher_prompt_ids"?, "teacher"?}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/text/chat_template_files.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/types/prompt.h"

namespace routeopd::text {

// What `chat` asks for after a problem.
inline constexpr const char* kChatRequest =
    "Please reason step by step, and put your final answer within \\boxed{}.";

// How a problem becomes what the student reads: `chat` (problem, blank line and kChatRequest as one user
// message through the model's chat template), `raw` (the problem itself), or a text in which {problem} is
// replaced.
class PromptTemplate {
 public:
  // `directory`: the model's, for its chat template. Throws UserError for a text without {problem}, and for
  // `chat` where the directory has no template.
  explicit PromptTemplate(std::string words, const std::filesystem::path& directory = {});

  // What is encoded. Plain text gets the ids that the tokenizer's post-processor adds; a chat template writes
  // its own.
  struct Words {
    std::string text;
    bool add_special = true;
  };
  Words apply(const std::string& problem) const;
  // {"messages", "tools"?, "template"?}, as `tokenize --chat` reads them, with a generation prompt.
  Words apply_chat(const OrderedJson& line) const;

  // Whether the directory has a chat template, readable or not.
  bool has_chat() const { return chat_ || !unreadable_.empty(); }

 private:
  std::string words_;
  std::optional<ChatTemplates> chat_;
  std::string unreadable_;  // why the template could not be read, or empty
};

// Whom the lines of a file may name as their teacher. Prompt::teacher counts in `all`.
struct PromptTeachers {
  struct Teacher {
    std::string name;     // empty: the only one, which no line needs to name
    PromptTemplate chat;  // what teacher_messages go through
  };
  std::vector<Teacher> all;
  std::string usual;  // the teacher of a line that names none; empty: each must name one
};

// Reads a file of prompts. `problem` goes through the template, `messages` through the chat template,
// `prompt` is encoded as it is, `prompt_ids` need no tokenizer (null). A response is encoded and followed by
// `eos` unless it is -1. What a line says of a teacher is read where there are `teachers` (or null): a
// teacher's prompt that has the ids of the student's is none. Errors name the line.
std::vector<Prompt> read_prompts(const std::string& path, const PromptTemplate& words,
                                 const tokenizer::Tokenizer* tokenizer, std::int32_t eos = -1,
                                 const PromptTeachers* teachers = nullptr);

// The prompt of one problem.
Prompt make_prompt(std::string id, std::uint32_t number, PromptTemplate::Words words,
                   const tokenizer::Tokenizer& tokenizer);

}  // namespace routeopd::text
