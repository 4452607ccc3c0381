//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/continue_message.h"

#include <algorithm>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"

namespace routeopd::text {
namespace {

// transformers' own: templates that trim a message's text take the space of the mark with it, and so tell that they do.
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

// The last block of a list of contents that has a text, marked; the text as it was.
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

}  // namespace

std::optional<Continuation> mark_final_message(OrderedJson& messages, const OrderedJson& options,
                                               std::string_view source) {
  const auto option = options.find("continue_final_message");
  if (option == options.end() || option->is_null() || *option == false || *option == "") return std::nullopt;
  if (!option->is_boolean() && !option->is_string())
    throw UserError("continue_final_message: expected true, false or a field's name, got {}",
                    option->type_name());
  const auto prompt = options.find("add_generation_prompt");
  if (prompt != options.end() && *prompt == true)
    throw UserError("continue_final_message and add_generation_prompt exclude each other; leave one out");
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
  if (message[field].is_array()) return Continuation{mark_last_text(message[field])};
  if (!message[field].is_string())
    throw UserError("continue_final_message: expected a text in {}, got {}", field,
                    message[field].type_name());
  Continuation continued{message[field].get<std::string>()};
  for (const std::string& name : fields)
    message[name] = message[name].get<std::string>() + std::string(kMark);
  return continued;
}

std::string cut_behind(std::string rendered, const Continuation& continued) {
  const std::string_view content = python::strip_right(python::strip_left(continued.content));
  const std::size_t mark = rendered.rfind(kTrimmedMark);
  if (mark == std::string::npos || rendered.find(content) == std::string::npos)
    throw UserError(
        "continue_final_message: expected the last message in the chat's text; the template leaves it out");
  const bool is_whole = std::string_view(rendered).substr(mark).starts_with(kMark);
  rendered.resize(mark);
  if (!is_whole) rendered.resize(python::strip_right(rendered).size());
  return rendered;
}

}  // namespace routeopd::text
