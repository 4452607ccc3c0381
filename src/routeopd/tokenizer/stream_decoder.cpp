//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/stream_decoder.h"

#include "routeopd/tokenizer/tokenizer_parts.h"

namespace routeopd::tokenizer {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : parts_(*tokenizer.parts_), skip_special_(skip_special) {
  if (!parts_.decoder.only_byte_level()) run_.emplace(parts_.decoder);
}

std::string StreamDecoder::add(std::int32_t id) {
  parts_.expect_id(id);
  std::string text;
  if (skip_special_ && parts_.is_skipped(id)) return text;
  if (run_) {
    run_->add(parts_.text_of(id), text);
  } else {
    std::string bytes;
    parts_.append_bytes(id, bytes);
    bytes_.add(bytes, text);
  }
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  if (run_) {
    run_->finish(text);
  } else {
    bytes_.finish(text);
  }
  return text;
}

}  // namespace routeopd::tokenizer
