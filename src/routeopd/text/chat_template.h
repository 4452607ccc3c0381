// Chat templates: messages to the text that a model reads, byte for byte as transformers' apply_chat_template
// (transformers 5, jinja2 3.1, Python 3.11). A template is untrusted: its work, its memory and its nesting are bounded, and
// what is not supported is refused by name and line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "routeopd/base/json_fwd.h"

namespace routeopd::jinja {
struct Template;
}

namespace routeopd::text {

class ChatTemplate {
 public:
  // `variables`: what transformers passes beside the messages, such as bos_token and eos_token. Throws UserError with the
  // line of what is not jinja.
  explicit ChatTemplate(std::string source, OrderedJson variables = OrderedJson::object());

  // `options`: tools, documents, add_generation_prompt, continue_final_message, and any variable of the template's own,
  // such as enable_thinking or date_string; they win over `variables`. tools = [] is not the same as no tools. Throws
  // UserError where Python throws, the template's own raise_exception included. May be called from several threads.
  std::string render(const OrderedJson& messages, const OrderedJson& options = OrderedJson::object()) const;

  const std::string& source() const { return source_; }

 private:
  std::string source_;
  OrderedJson variables_;
  std::shared_ptr<const jinja::Template> parsed_;
};

}  // namespace routeopd::text
