// SPDX-License-Identifier: Apache-2.0
#include "routeopd/net/secret.h"

#include <algorithm>
#include <cstddef>

namespace routeopd::net {

void hide_secret(std::string& text, std::string_view secret) {
  constexpr std::size_t kShortest = 8;
  if (secret.size() < kShortest) return;
  for (std::size_t at = text.find(secret); at != std::string::npos;
       at = text.find(secret, at + secret.size()))
    std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), secret.size(), '*');
}

}  // namespace routeopd::net
