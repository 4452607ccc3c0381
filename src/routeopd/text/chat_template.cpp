// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/chat_template.h"

#include <algorithm>
#include <array>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/jinja/interpreter.h"
#include "routeopd/jinja/parser.h"

namespace routeopd::text {
namespace {

// Options of apply_chat_template that are not passed to templates.
constexpr std::array<std::string_view, 12> kNotForTemplates{
    "messages",         "conversation",
    "chat_template",    "tokenize",
    "padding",          "truncation",
    "max_length",       "return_tensors",
    "return_dict",      "return_assistant_tokens_mask",
    "tokenizer_kwargs", "sanitize_control_tokens"};

// The message with its reasoning under every name that templates read: {"thinking": r, **message,
// "reasoning_content": r}.
OrderedJson with_reasoning(const OrderedJson& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    OrderedJson aliased = OrderedJson::object();
    aliased["thinking"] = *found;
    for (const auto& [key, value] : message.items()) aliased[key] = value;
    aliased["reasoning_content"] = *found;
    return aliased;
  }
  return message;
}

OrderedJson checked_messages(const OrderedJson& messages) {
  if (!messages.is_array()) throw UserError("messages: expected a list, got {}", messages.type_name());
  if (messages.empty()) throw UserError("messages: expected at least one message, got none");
  OrderedJson checked = OrderedJson::array();
  for (const OrderedJson& message : messages) {
    if (!message.is_object()) throw UserError("messages: expected objects, got {}", message.type_name());
    checked.push_back(with_reasoning(message));
  }
  return checked;
}

void expect_objects(const OrderedJson& options, const char* name) {
  const auto found = options.find(name);
  if (found == options.end() || found->is_null()) return;
  if (!found->is_array()) throw UserError("{}: expected a list, got {}", name, found->type_name());
  for (const OrderedJson& each : *found) {
    if (!each.is_object()) throw UserError("{}: expected objects, got {}", name, each.type_name());
  }
}

// The mark of transformers. A template that trims a message's text also removes the mark's space.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kTrimmedMark = "CONTINUE_FINAL_MESSAGE_TAG";

// The fields to mark: reasoning goes by several names, of which a template reads one.
std::vector<std::string> fields_of(const OrderedJson& message, const std::string& field) {
  const std::vector<std::string> reasoning{"reasoning_content", "thinking", "reasoning"};
  if (std::find(reasoning.begin(), reasoning.end(), field) == reasoning.end()) return {field};
  std::vector<std::string> fields;
  for (const std::string& name : reasoning) {
    if (message.contains(name) && message[name] == message[field]) fields.push_back(name);
  }
  return fields;
}

// Marks the last block with a text in a list of contents; returns that text as it was.
std::string mark_last_text(OrderedJson& blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (!block->is_object() || !block->contains("text")) continue;
    OrderedJson& text = (*block)["text"];
    if (!text.is_string()) break;
    std::string content = text.get<std::string>();
    text = content + std::string(kMark);
    return content;
  }
  throw UserError("continue_final_message: expected a text in the last message, got none");
}

// When continue_final_message asks for it, appends a mark to the text of the last message and returns that
// text as it was. Throws UserError where the message has no text.
std::optional<std::string> mark_final_message(OrderedJson& messages, const OrderedJson& options,
                                              std::string_view source) {
  const auto option = options.find("continue_final_message");
  if (option == options.end() || option->is_null() || *option == false || *option == "") return std::nullopt;
  if (!option->is_boolean() && !option->is_string())
    throw UserError("continue_final_message: expected true, false or a field's name, got {}",
                    option->type_name());
  const auto prompt = options.find("add_generation_prompt");
  if (prompt != options.end() && *prompt == true)
    throw UserError("continue_final_message and add_generation_prompt exclude each other; remove one");
  const std::string field = option->is_string() ? option->get<std::string>() : "content";
  OrderedJson& message = messages.back();
  if (!message.contains(field) || message[field].is_null())
    throw UserError("continue_final_message: expected {} in the last message, got none", field);
  const std::vector<std::string> fields = fields_of(message, field);
  const bool known = std::any_of(fields.begin(), fields.end(), [&](const std::string& name) {
    return source.find(name) != std::string_view::npos;
  });
  if (!known)
    throw UserError("continue_final_message: expected a field that the template reads, got {}", field);
  if (message[field].is_array()) return mark_last_text(message[field]);
  if (!message[field].is_string())
    throw UserError("continue_final_message: expected a text in {}, got {}", field,
                    message[field].type_name());
  std::string content = message[field].get<std::string>();
  for (const std::string& name : fields)
    message[name] = message[name].get<std::string>() + std::string(kMark);
  return content;
}

// The rendered text up to the mark: it ends where the last message does, so that a model continues that
// message. Throws UserError when the template dropped the mark or the message.
std::string cut_at_mark(std::string rendered, const std::string& content_before) {
  const std::string_view content = python::strip_right(python::strip_left(content_before));
  const std::size_t mark = rendered.rfind(kTrimmedMark);
  if (mark == std::string::npos || rendered.find(content) == std::string::npos)
    throw UserError(
        "continue_final_message: expected the last message in the chat's text; the template drops it");
  const bool is_whole = std::string_view(rendered).substr(mark).starts_with(kMark);
  rendered.resize(mark);
  if (!is_whole) rendered.resize(python::strip_right(rendered).size());
  return rendered;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, OrderedJson variables)
    : source_(std::move(source)), variables_(std::move(variables)) {
  if (!variables_.is_object())
    throw UserError("variables: expected an object, got {}", variables_.type_name());
  parsed_ = std::make_shared<const jinja::Template>(jinja::parse(source_));
}

std::string ChatTemplate::render(const OrderedJson& messages, const OrderedJson& options) const {
  if (!options.is_object())
    throw UserError("template options: expected an object, got {}", options.type_name());
  for (const std::string_view name : kNotForTemplates) {
    if (options.contains(name))
      throw UserError("template options: {} is not an option of templates; remove it", name);
  }
  OrderedJson chat = checked_messages(messages);
  expect_objects(options, "tools");
  expect_objects(options, "documents");
  const std::optional<std::string> continued = mark_final_message(chat, options, source_);

  jinja::Interpreter interpreter;
  const auto define = [&](const std::string& name, const OrderedJson& value) {
    try {
      interpreter.define(name, jinja::value_of(interpreter.heap(), value));
    } catch (const UserError& error) {
      throw UserError("{}: {}", name, error.what());
    }
  };
  define("tools", nullptr);
  define("documents", nullptr);
  define("add_generation_prompt", false);
  for (const auto& [name, value] : variables_.items()) define(name, value);
  for (const auto& [name, value] : options.items()) {
    if (name != "continue_final_message") define(name, value);
  }
  define("messages", chat);
  std::string text = interpreter.render(*parsed_);
  return continued ? cut_at_mark(std::move(text), *continued) : text;
}

}  // namespace routeopd::text
