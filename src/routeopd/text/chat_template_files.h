// The chat templates of a model directory, found and chosen as transformers does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/text/chat_template.h"

namespace routeopd::text {

class ChatTemplates {
 public:
  // Sources by name; a single template is one named "default".
  ChatTemplates(const std::vector<std::pair<std::string, std::string>>& sources,
                const OrderedJson& variables);

  // Renders with the template that options["chat_template"] names, else "tool_use" if tools are given (even
  // an empty list), else "default". Throws UserError as ChatTemplate does.
  std::string render(const OrderedJson& messages, const OrderedJson& options = OrderedJson::object()) const;

  const ChatTemplate& chosen(const OrderedJson& options) const;
  std::vector<std::string> names() const;
  const std::string& source(const std::string& name) const;  // `name` must exist

 private:
  struct Named {
    std::string name;
    std::string source;
    std::optional<ChatTemplate> parsed;
    std::string error;  // why it could not be parsed: thrown when it is chosen
  };
  std::vector<Named> templates_;
};

// chat_template.jinja and additional_chat_templates/NAME.jinja, which take precedence, or "chat_template" of
// tokenizer_config.json: a text, a list of {"name", "template"}, or an object. nullopt when there is none.
// The templates' variables are the directory's special tokens (tokenizer/declared_tokens.h).
std::optional<ChatTemplates> read_chat_templates(const std::filesystem::path& directory);

// A line of chat {"messages", "tools"?, "template"?: {option: value}} as text. `defaults` are options that
// the line may override. Throws UserError naming the wrong field.
std::string render_chat(const ChatTemplates& templates, const OrderedJson& line, OrderedJson defaults);

}  // namespace routeopd::text
