// Chat templates: messages to the text that a model reads, byte for byte as transformers' apply_chat_template
// (transformers 5, jinja2 3.1, Python 3.11). A template is untrusted: its work, its memory and its nesting
// are bounded, and what is not supported is refused by name and line.
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
  // `variables`: what transformers passes in addition to the messages, such as bos_token and eos_token.
  // Throws UserError naming the line that is not jinja.
  explicit ChatTemplate(std::string source, OrderedJson variables = OrderedJson::object());

  // `options`: tools, documents, add_generation_prompt, continue_final_message, and variables of the
  // template's own, such as enable_thinking or date_string; they override `variables`. tools = [] differs
  // from no tools. Throws UserError where Python raises, including the template's own raise_exception.
  // Threads may share one.
  std::string render(const OrderedJson& messages, const OrderedJson& options = OrderedJson::object()) const;

  const std::string& source() const { return source_; }

 private:
  std::string source_;
  OrderedJson variables_;
  std::shared_ptr<const jinja::Template> parsed_;
};

}  // namespace routeopd::text
