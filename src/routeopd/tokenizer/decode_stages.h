// The steps of a decoder, each handing what it makes of its tokens to the next: internal to decoder.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "routeopd/tokenizer/decoder.h"

namespace routeopd::tokenizer {

// Takes begin, text (whole characters, in any number of pieces), end for each token, and finish at the end of all.
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
  void give(std::string_view token) {
    next_->begin();
    next_->text(token);
    next_->end();
  }

 private:
  DecodeStage* next_;
};

// The stage of a step, in front of `next`.
std::unique_ptr<DecodeStage> make_stage(const Decoder::Step& step, DecodeStage* next);

// The end of the line: appends all text to `ready`.
std::unique_ptr<DecodeStage> make_gatherer(std::string& ready);

}  // namespace routeopd::tokenizer
