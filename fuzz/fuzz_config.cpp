// libFuzzer: any bytes as config.json. A configuration that is accepted must be one whose sizes can
// be multiplied, and must read back as itself.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "routeopd/base/error.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace routeopd::formats;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const ModelConfig config = model_config_of(parse_json_object(text, "config.json"));
    std::int64_t rows = 0;
    if (__builtin_mul_overflow(config.vocab_size, config.hidden_size, &rows)) std::abort();
    if (__builtin_mul_overflow(config.num_attention_heads * config.head_dim, config.hidden_size, &rows))
      std::abort();
    if (config.num_attention_heads % config.num_key_value_heads != 0 || config.head_dim % 2 != 0)
      std::abort();
    const routeopd::Json written = json_of(config);
    if (json_of(model_config_of(written)) != written) std::abort();
  } catch (const routeopd::UserError&) {
  }
  return 0;
}
