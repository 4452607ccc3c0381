// Text of ids that come one by one, as from a model that is generating: whole characters, as early as they are sure.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "routeopd/base/utf8.h"
#include "routeopd/tokenizer/decoder.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::tokenizer {

// All that add() and finish() give, one behind another, is Tokenizer::decode() of all ids. The tokenizer must outlive
// it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);

  // Takes the next id; the text that has become sure, perhaps none. Throws UserError for an id that does not exist,
  // and is then as it was.
  std::string add(std::int32_t id);

  // The rest, of ids that made no whole character. Call it once, at the end.
  std::string finish();

 private:
  const Tokenizer::Parts& parts_;
  bool skip_special_;
  LossyUtf8 bytes_;                  // where the decoder is ByteLevel alone
  std::optional<Decoder::Run> run_;  // where it is not
};

}  // namespace routeopd::tokenizer
