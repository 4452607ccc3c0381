// Reads JSON (RFC 8259) at about 500 MB/s into nlohmann's SAX interface. A tokenizer.json has half a million
// short strings; nlohmann's own reader takes longer for them than all the rest of loading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "routeopd/base/fields.h"

namespace routeopd::tokenizer {

// Calls `handler` for each value of `text`, from the first byte on. Throws UserError at the first byte that
// is not JSON or not UTF-8. Recurses for each level: the handler must bound the depth by throwing.
// parse_error() is never called.
void scan_json(std::string_view text, nlohmann::json_sax<Json>& handler);

}  // namespace routeopd::tokenizer
