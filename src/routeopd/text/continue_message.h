// continue_final_message: the chat's text ends where the last message's does, so that a model goes on with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "routeopd/text/chat_template.h"

namespace routeopd::text {

struct Continuation {
  std::string content;  // of the message that goes on
};

// When the option asks for it, puts a mark behind the last message's text. Throws UserError where there is none.
std::optional<Continuation> mark_final_message(OrderedJson& messages, const OrderedJson& options,
                                               std::string_view source);

// The rendered text up to the mark. Throws UserError when the template dropped the mark or the message.
std::string cut_behind(std::string rendered, const Continuation& continued);

}  // namespace routeopd::text
