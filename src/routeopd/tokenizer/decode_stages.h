// The steps of a decoder, each of which passes its tokens to the next. Internal to decoder.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "routeopd/tokenizer/decoder.h"

namespace routeopd::tokenizer {

// Is called with begin, text (whole characters, in any number of pieces) and end for each token, and with
// finish at the end.
class DecodeStage {
 public:
  explicit DecodeStage(DecodeStage* next) : next_(next) {}
  virtual ~DecodeStage() = default;
  DecodeStage(const DecodeStage&) = delete;
  DecodeStage& operator=(const DecodeStage&) = delete;

  virtual void begin() { next_->begin(); }
  virtual void text(std::string_view piece) = 0;
  virtual void end() { next_->end(); }
  virtual void finish() { next_->finish(); }

 protected:
  DecodeStage& next() { return *next_; }
  void emit_token(std::string_view token) {
    next_->begin();
    next_->text(token);
    next_->end();
  }

 private:
  DecodeStage* next_;
};

// The stage of a step, followed by `next`.
std::unique_ptr<DecodeStage> make_stage(const Decoder::Step& step, DecodeStage* next);

// The last stage: appends all text to `ready`.
std::unique_ptr<DecodeStage> make_collector(std::string& ready);

}  // namespace routeopd::tokenizer
