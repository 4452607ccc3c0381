// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/prompts.h"

#include <initializer_list>
#include <limits>
#include <set>
#include <utility>

#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/formats/ordered_json.h"

namespace routeopd::text {
namespace {

constexpr std::string_view kSlot = "{problem}";

std::string text_in(const Json& line, const char* name) {
  if (!line[name].is_string()) throw UserError("{}: expected text, got {}", name, shown(line[name]));
  return line[name].get<std::string>();
}

// Throws where a line has more than one of them.
void at_most_one(const Json& line, std::initializer_list<const char*> kinds, const char* what) {
  std::string found;
  for (const char* kind : kinds) {
    if (line.contains(kind)) found += (found.empty() ? "" : " and ") + std::string(kind);
  }
  if (found.find(" and ") != std::string::npos)
    throw UserError("expected one kind of {}, got {}", what, found);
}

std::vector<std::int32_t> ids_under(const Json& line, const char* name) {
  return formats::naming(
      name, [&] { return formats::ids_in(line[name], std::numeric_limits<std::int32_t>::max()); });
}

Prompt prompt_of(const Json& line, const std::string& raw_line, std::uint32_t number,
                 const PromptTemplate& words, const tokenizer::Tokenizer* tokenizer) {
  at_most_one(line, {"problem", "messages", "prompt", "prompt_ids"}, "prompt");
  Prompt prompt;
  std::string id = formats::id_of(line, number);
  if (line.contains("prompt_ids")) {
    prompt.id = std::move(id);
    prompt.number = number;
    prompt.ids = ids_under(line, "prompt_ids");
  } else {
    PromptTemplate::Words asked;
    if (line.contains("problem")) {
      asked = words.apply(text_in(line, "problem"));
    } else if (line.contains("messages")) {
      asked = words.apply_chat(formats::parse_ordered_json(raw_line, "messages"));
    } else if (line.contains("prompt")) {
      asked.text = text_in(line, "prompt");
    } else {
      throw UserError("expected problem, messages, prompt or prompt_ids");
    }
    if (tokenizer == nullptr)
      throw UserError("text needs a tokenizer, and the model directory has none; give prompt_ids");
    prompt = make_prompt(std::move(id), number, std::move(asked), *tokenizer);
    if (line.contains("problem")) prompt.problem = text_in(line, "problem");
  }
  if (prompt.ids.empty()) throw UserError("the prompt has no tokens");
  if (line.contains("id")) prompt.id_json = line["id"].dump();
  if (line.contains("answer")) prompt.answer = shown(line["answer"]);
  return prompt;
}

// Which teacher reads the line's responses.
std::int32_t teacher_of(const Json& line, const PromptTeachers& teachers) {
  const bool named = line.contains("teacher");
  const std::string name = named ? text_in(line, "teacher") : teachers.usual;
  std::string known;
  for (std::size_t t = 0; t < teachers.all.size(); ++t) {
    const std::string& other = teachers.all[t].name;
    if (other == name || (!named && teachers.all.size() == 1)) return static_cast<std::int32_t>(t);
    known += (known.empty() ? "" : ", ") + other;
  }
  if (named && teachers.all.size() == 1 && teachers.all.front().name.empty())
    throw UserError("teacher: got {}, and the recipe has one teacher without a name; expected [teachers.{}]",
                    name, name);
  if (named) throw UserError("teacher: expected one of {}, got {}", known, name);
  throw UserError("teacher: missing; expected one of {}, or [teachers] default in the recipe", known);
}

// What the teacher reads in place of the student's prompt.
void read_teacher_prompt(const Json& line, const std::string& raw_line, const PromptTemplate& chat,
                         const tokenizer::Tokenizer* tokenizer, Prompt& prompt) {
  at_most_one(line, {"teacher_messages", "teacher_prompt", "teacher_prompt_ids"}, "teacher's prompt");
  if (line.contains("teacher_template") && !line.contains("teacher_messages"))
    throw UserError("teacher_template: expected teacher_messages beside it, which it has options for");
  if (line.contains("teacher_prompt_ids")) {
    prompt.teacher_ids = ids_under(line, "teacher_prompt_ids");
  } else if (line.contains("teacher_prompt") || line.contains("teacher_messages")) {
    PromptTemplate::Words asked;
    if (line.contains("teacher_prompt")) {
      asked.text = text_in(line, "teacher_prompt");
    } else {
      if (!line["teacher_messages"].is_array())
        throw UserError("teacher_messages: expected a list of {{\"role\", \"content\"}}, got {}",
                        line["teacher_messages"].type_name());
      if (!chat.has_chat())
        throw UserError(
            "teacher_messages: no model's directory has a chat template; give teacher_prompt or "
            "teacher_prompt_ids");
      // The same tools; its own options where it has some, such as another thinking mode.
      const OrderedJson whole = formats::parse_ordered_json(raw_line, "teacher_messages");
      OrderedJson own = OrderedJson::object({{"messages", whole["teacher_messages"]}});
      if (whole.contains("tools")) own["tools"] = whole["tools"];
      for (const char* options : {"teacher_template", "template"}) {
        if (!whole.contains(options)) continue;
        own["template"] = whole[options];
        break;
      }
      asked = formats::naming("teacher_messages", [&] { return chat.apply_chat(own); });
    }
    if (tokenizer == nullptr)
      throw UserError("text needs a tokenizer, and the model directory has none; give teacher_prompt_ids");
    prompt.teacher_ids = tokenizer->encode(asked.text, asked.add_special);
    prompt.teacher_text = std::move(asked.text);
  } else {
    return;
  }
  if (prompt.teacher_ids.empty()) throw UserError("the teacher's prompt has no tokens");
  if (prompt.teacher_ids != prompt.ids) return;
  prompt.teacher_ids.clear();
  prompt.teacher_text.clear();
}

}  // namespace

PromptTemplate::PromptTemplate(std::string words, const std::filesystem::path& directory)
    : words_(words == "raw" ? std::string(kSlot) : std::move(words)) {
  try {
    if (!directory.empty()) chat_ = read_chat_templates(directory);
  } catch (const UserError& error) {
    if (words_ == "chat") throw;
    unreadable_ = error.what();  // thrown when a chat is rendered
  }
  if (words_ == "chat") {
    if (!chat_)
      throw UserError("template: {} has no chat template; expected raw, or a text with {}",
                      directory.empty() ? "the model" : directory.string(), kSlot);
  } else if (words_.find(kSlot) == std::string::npos) {
    throw UserError("template: expected chat, raw, or a text with {}, got {}", kSlot, words_);
  }
}

PromptTemplate::Words PromptTemplate::apply_chat(const OrderedJson& line) const {
  if (!unreadable_.empty()) throw UserError("{}", unreadable_);
  if (!chat_)
    throw UserError(
        "messages: the model's directory has no chat template; give problem, prompt or prompt_ids");
  return {render_chat(*chat_, line, OrderedJson::object({{"add_generation_prompt", true}})), false};
}

PromptTemplate::Words PromptTemplate::apply(const std::string& problem) const {
  if (words_ == "chat") {
    const std::string asked = problem + "\n\n" + kChatRequest;
    const OrderedJson message = {{"role", "user"}, {"content", asked}};
    return apply_chat(OrderedJson::object({{"messages", OrderedJson::array({message})}}));
  }
  std::string text;
  std::size_t from = 0;
  for (std::size_t at = words_.find(kSlot); at != std::string::npos; at = words_.find(kSlot, from)) {
    text.append(words_, from, at - from).append(problem);
    from = at + kSlot.size();
  }
  return {text.append(words_, from), true};
}

Prompt make_prompt(std::string id, std::uint32_t number, PromptTemplate::Words words,
                   const tokenizer::Tokenizer& tokenizer) {
  Prompt prompt;
  prompt.id = std::move(id);
  prompt.number = number;
  prompt.ids = tokenizer.encode(words.text, words.add_special);
  prompt.text = std::move(words.text);
  return prompt;
}

std::vector<Prompt> read_prompts(const std::string& path, const PromptTemplate& words,
                                 const tokenizer::Tokenizer* tokenizer, std::int32_t eos,
                                 const PromptTeachers* teachers) {
  formats::JsonLines lines(path);
  std::vector<Prompt> prompts;
  std::set<std::string> ids;
  while (const auto line = lines.next()) {
    try {
      Prompt prompt =
          prompt_of(*line, lines.text(), static_cast<std::uint32_t>(prompts.size()), words, tokenizer);
      if (!ids.insert(prompt.id).second) throw UserError("expected each id once, got {} twice", prompt.id);
      if (teachers != nullptr) {
        prompt.teacher = teacher_of(*line, *teachers);
        read_teacher_prompt(*line, lines.text(), teachers->all[static_cast<std::size_t>(prompt.teacher)].chat,
                            tokenizer, prompt);
      }
      if (line->contains("response")) {
        if (tokenizer == nullptr)
          throw UserError("response: text needs a tokenizer, and the model directory has none");
        prompt.response = text_in(*line, "response");
        prompt.response_ids = tokenizer->encode(prompt.response);
        if (eos >= 0) prompt.response_ids.push_back(eos);
      }
      prompts.push_back(std::move(prompt));
    } catch (const UserError& error) {
      throw UserError("{}: {}", lines.where(), error.what());
    }
  }
  if (prompts.empty())
    throw UserError("{}: no prompts; expected one JSON object a line", path == "-" ? "standard input" : path);
  return prompts;
}

}  // namespace routeopd::text
