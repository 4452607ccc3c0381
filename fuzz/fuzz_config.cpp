// libFuzzer: any bytes as config.json. A configuration that is accepted must have sizes that can be
// multiplied and a table of weights, and must read back as itself.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "routeopd/base/error.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/model_config.h"
#include "routeopd/formats/weight_table.h"

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
    ModelConfig one_layer = config;  // the table of a thousand layers would slow the fuzzer down
    one_layer.num_hidden_layers = 1;
    for (const WeightRow& row : weight_table(one_layer)) {
      std::int64_t elements = 1;
      for (const std::int64_t length : row.shape) {
        if (length < 1 || __builtin_mul_overflow(elements, length, &elements)) std::abort();
      }
      if (__builtin_mul_overflow(elements, config.num_hidden_layers, &rows)) std::abort();
    }
    const routeopd::Json written = json_of(config);
    if (json_of(model_config_of(written)) != written) std::abort();
  } catch (const routeopd::UserError&) {
  }
  return 0;
}
