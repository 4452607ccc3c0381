// What a tokenizer is made of: internal to tokenizer.cpp and stream_decoder.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "routeopd/tokenizer/added_tokens.h"
#include "routeopd/tokenizer/bpe.h"
#include "routeopd/tokenizer/decoder.h"
#include "routeopd/tokenizer/normalizer.h"
#include "routeopd/tokenizer/post_processor.h"
#include "routeopd/tokenizer/pre_tokenizer.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::tokenizer {

// What does not change once it is read: threads may share it.
struct Tokenizer::Parts {
  explicit Parts(const TokenizerFile& file);

  // How an added token is decoded: as its normal form, where it is looked for as that. `tokenizers` tells special tokens
  // by the text that it decodes, so one whose normal form is another text is never left out.
  struct DecodedToken {
    std::string text;
    std::string bytes;  // that ByteLevel makes of it
    bool special;
  };

  // Fills the cutters and what decoding needs, and puts `added` into the order of ids.
  void read_spellings();

  // Throws UserError for an id that does not exist.
  void expect_id(std::int32_t id) const;
  std::ptrdiff_t added_place(std::int32_t id) const;             // in `added`, -1 for none
  bool is_skipped(std::int32_t id) const;                        // when special tokens are left out
  std::string text_of(std::int32_t id) const;                    // that goes into the decoder
  void append_bytes(std::int32_t id, std::string& bytes) const;  // that ByteLevel makes of it

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::vector<AddedToken> added;  // in the order of their ids
  std::int32_t real_ids;
  PostProcessor post_processor;
  Decoder decoder;
  std::vector<DecodedToken> decoded;  // of `added`
  TokenCutter first_cut;              // tokens looked for in the text as it is
  TokenCutter second_cut;             // and those looked for in what the normaliser makes of the rest
  std::unordered_map<std::string_view, std::int32_t> added_ids;  // of contents in `added`
};

}  // namespace routeopd::tokenizer
