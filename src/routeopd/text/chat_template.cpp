//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/chat_template.h"

#include <algorithm>
#include <array>

#include "routeopd/base/error.h"
#include "routeopd/jinja/interpreter.h"
#include "routeopd/jinja/parser.h"
#include "routeopd/text/continue_message.h"

namespace routeopd::text {
namespace {

// Of apply_chat_template, and of no template.
constexpr std::array<std::string_view, 12> kNotForTemplates{
    "messages",         "conversation",
    "chat_template",    "tokenize",
    "padding",          "truncation",
    "max_length",       "return_tensors",
    "return_dict",      "return_assistant_tokens_mask",
    "tokenizer_kwargs", "sanitize_control_tokens"};

// Reasoning under every name that templates look for: {"thinking": r, **message, "reasoning_content": r}.
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
      throw UserError("template options: {} is not a template's; leave it out", name);
  }
  OrderedJson chat = checked_messages(messages);
  expect_objects(options, "tools");
  expect_objects(options, "documents");
  const std::optional<Continuation> continued = mark_final_message(chat, options, source_);

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
  return continued ? cut_behind(std::move(text), *continued) : text;
}

}  // namespace routeopd::text
