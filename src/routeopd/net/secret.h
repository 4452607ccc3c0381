// Keys that a server repeats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::net {

// Puts a star for every character of `secret` wherever it is in `text`, whose length stays. A shorter one
// than 8 characters is no secret, and would be found in any text.
void hide_secret(std::string& text, std::string_view secret);

}  // namespace routeopd::net
