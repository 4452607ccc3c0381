// libFuzzer: any bytes as a tokenizer.json, which is refused with a UserError or encodes, decodes and
// streams.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/tokenizer/tokenizer.h"

using routeopd::UserError;
using routeopd::tokenizer::StreamDecoder;
using routeopd::tokenizer::Tokenizer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Tokenizer tokenizer =
        Tokenizer::from_json({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
    ROUTEOPD_INVARIANT(!tokenizer.description().empty());
    for (const std::string_view text :
         {"", "Hello, 12 worlds!\n\n  it's", " <s> a<|endoftext|>  e\u0301\u0327 \u0301",
          "数学の問題 🙂 \u00a0\t<unk>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
      try {
        const std::vector<std::int32_t> ids = tokenizer.encode(text, true);
        for (const bool skip : {false, true}) {
          StreamDecoder stream(tokenizer, skip);
          std::string streamed;
          for (const std::int32_t id : ids) {
            ROUTEOPD_INVARIANT(id >= 0 && id < tokenizer.real_ids());
            streamed += stream.add(id);
          }
          streamed += stream.finish();
          ROUTEOPD_INVARIANT(streamed == tokenizer.decode(ids, skip));
          ROUTEOPD_INVARIANT(routeopd::find_invalid_utf8(streamed) == std::string::npos);
        }
      } catch (const UserError&) {  // a pattern that takes too long, a text that grows
      }
    }
  } catch (const UserError&) {
  }
  return 0;
}
