// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/post_processor.h"

#include <string>

#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/tokenizer_file.h"

namespace routeopd::tokenizer {

PostProcessor::PostProcessor(const Json& component, std::int32_t real_ids) : real_ids_(real_ids) {
  if (!component.is_null()) read(component);
}

void PostProcessor::read(const Json& component) {
  const std::string type = component_type(component);
  if (type == "Sequence") {
    for (const Json& part : component_list(component, "processors")) read(part);
  } else if (type == "TemplateProcessing") {
    formats::naming(type, [&] { read_template(component); });
  } else if (type != "ByteLevel") {
    throw UserError("expected TemplateProcessing, ByteLevel or a Sequence of them, got {}", type);
  }
}

// "single": [{"SpecialToken": {"id": name}}, {"Sequence": {"id": "A"}}], "special_tokens": {name: {"ids":
// […]}}.
void PostProcessor::read_template(const Json& component) {
  if (has_template_) throw UserError("expected one of them, got more");
  has_template_ = true;
  const Json& specials = formats::value_or_null(component, "special_tokens");
  if (!specials.is_object()) throw UserError("special_tokens: expected an object, got {}", shown(specials));
  bool seen = false;
  for (const Json& piece : component_list(component, "single")) {
    const auto id_under = [&](const char* key) -> std::string {
      const Json& part = piece.is_object() ? formats::value_or_null(piece, key) : piece;
      return part.is_object() ? shown(formats::value_or_null(part, "id")) : "";
    };
    if (!seen && id_under("Sequence") == "A") {
      seen = true;
      continue;
    }
    const std::string name = id_under("SpecialToken");
    const Json& special = formats::value_or_null(specials, name.c_str());
    if (!special.is_object())
      throw UserError("single: expected sequence A once and names of special_tokens, got {}", piece.dump());
    formats::naming(name, [&] {
      for (const Json& id : component_list(special, "ids"))
        (seen ? after_ : before_)
            .push_back(static_cast<std::int32_t>(number_in(id, {0, real_ids_ - 1.0}, true)));
    });
  }
  if (!seen) throw UserError("single: expected sequence A once, got none");
}

}  // namespace routeopd::tokenizer
