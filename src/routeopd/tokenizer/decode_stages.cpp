// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/decode_stages.h"

#include <optional>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/tokenizer/byte_level.h"

namespace routeopd::tokenizer {
namespace {

class Collector : public DecodeStage {
 public:
  explicit Collector(std::string& ready) : DecodeStage(nullptr), ready_(ready) {}
  void begin() override {}
  void text(std::string_view piece) override { ready_ += piece; }
  void end() override {}
  void finish() override {}

 private:
  std::string& ready_;
};

// Joins all tokens into one.
class FuseStage : public DecodeStage {
 public:
  explicit FuseStage(DecodeStage* following) : DecodeStage(following) {}
  void begin() override { open(); }
  void text(std::string_view piece) override { next().text(piece); }
  void end() override {}
  void finish() override {
    open();
    next().end();
    next().finish();
  }

 protected:
  void open() {
    if (!open_) next().begin();
    open_ = true;
  }

 private:
  bool open_ = false;
};

// Joins all tokens into one, made of the bytes that they spell.
class ByteLevelStage : public FuseStage {
 public:
  explicit ByteLevelStage(DecodeStage* following) : FuseStage(following) {}
  void text(std::string_view piece) override { token_ += piece; }
  void end() override {
    std::string bytes;
    append_bytes_of(token_, bytes);
    token_.clear();
    std::string characters;
    reader_.add(bytes, characters);
    next().text(characters);
  }
  void finish() override {
    open();
    std::string characters;
    reader_.finish(characters);
    next().text(characters);
    FuseStage::finish();
  }

 private:
  std::string token_;
  LossyUtf8 reader_;
};

// The byte of "<0x4A>", in upper or lower case. The number parser of `tokenizers` also accepts a sign:
// "<0x+A>".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  int byte = 0;
  for (std::size_t i = 3; i < 5; ++i) {
    const char digit = token[i];
    if (digit == '+' && i == 3) continue;
    const int value = digit >= '0' && digit <= '9'   ? digit - '0'
                      : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                      : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                                     : -1;
    if (value < 0) return std::nullopt;
    byte = 16 * byte + value;
  }
  return static_cast<char>(byte);
}

// A run of byte tokens becomes one token if all its bytes are UTF-8; otherwise each byte becomes U+FFFD. So a
// run is held until it ends or a byte breaks it.
class ByteFallbackStage : public DecodeStage {
 public:
  explicit ByteFallbackStage(DecodeStage* following) : DecodeStage(following) {}
  void begin() override {}
  void text(std::string_view piece) override {
    if (forwarding_) {
      next().text(piece);
      return;
    }
    token_ += piece;
    if (token_.size() > 6) forward_token();  // too long for a byte token
  }
  void end() override {
    const std::optional<char> byte = forwarding_ ? std::nullopt : byte_of(token_);
    if (byte) {
      add(*byte);
    } else {
      if (!forwarding_) forward_token();
      next().end();
    }
    token_.clear();
    forwarding_ = false;
  }
  void finish() override {
    end_run();
    next().finish();
  }

 private:
  void forward_token() {
    end_run();
    next().begin();
    next().text(token_);
    forwarding_ = true;
  }

  void add(char byte) {
    run_ += byte;
    while (!broken_ && checked_ < run_.size()) {
      const Utf8Step step = utf8_step(run_, checked_);
      if (step.cut_off) return;
      broken_ = !step.valid;
      checked_ += step.length;
    }
    if (broken_) emit_replacements();
  }

  void emit_replacements() {
    for (std::size_t i = 0; i < run_.size(); ++i) emit_token(kReplacementCharacter);
    run_.clear();
  }

  void end_run() {
    if (checked_ < run_.size()) {
      emit_replacements();
    } else if (!run_.empty()) {
      emit_token(run_);
    }
    run_.clear();
    checked_ = 0;
    broken_ = false;
  }

  std::string token_;  // the current token, while it may be a byte token
  bool forwarding_ = false;
  std::string run_;  // bytes of the run that are held
  std::size_t checked_ = 0;
  bool broken_ = false;
};

class SpacedStage : public DecodeStage {
 public:
  explicit SpacedStage(DecodeStage* following) : DecodeStage(following) {}
  void begin() override {
    next().begin();
    if (!first_) next().text(" ");
    first_ = false;
  }
  void text(std::string_view piece) override { next().text(piece); }

 private:
  bool first_ = true;
};

class StripStage : public DecodeStage {
 public:
  StripStage(const Decoder::Strip& strip, DecodeStage* following) : DecodeStage(following), strip_(strip) {}
  void begin() override {
    left_ = strip_.start;
    held_ = 0;
    next().begin();
  }
  void text(std::string_view piece) override {
    std::string kept;
    for (std::size_t at = 0, size = 0; at < piece.size(); at += size) {
      size = utf8_length(piece[at]);
      const std::string_view character = piece.substr(at, size);
      if (character != strip_.character) {
        left_ = 0;
        for (; held_ > 0; --held_) kept += strip_.character;
        kept += character;
      } else if (left_ > 0) {
        --left_;
      } else if (held_ < strip_.stop) {
        ++held_;  // it may be among the last of the token
      } else {
        kept += character;
      }
    }
    next().text(kept);
  }

 private:
  const Decoder::Strip& strip_;
  std::size_t left_ = 0;  // characters still to drop at the beginning
  std::size_t held_ = 0;  // characters to drop if the token ends here
};

class ReplaceStage : public DecodeStage {
 public:
  ReplaceStage(const Decoder::Replace& replace, DecodeStage* following)
      : DecodeStage(following), replace_(replace), shorter_(replace.pattern.size() + 1) {
    // shorter_[n]: the length of the longest proper prefix of the pattern's first n bytes that is also their
    // suffix (Knuth, Morris and Pratt).
    for (std::size_t n = 1, length = 0; n < replace.pattern.size(); ++n) {
      while (length > 0 && replace.pattern[n] != replace.pattern[length]) length = shorter_[length];
      if (replace.pattern[n] == replace.pattern[length]) ++length;
      shorter_[n + 1] = length;
    }
  }
  void text(std::string_view piece) override {
    const std::string& pattern = replace_.pattern;
    std::string made;
    for (const char byte : piece) {
      while (matched_ > 0 && pattern[matched_] != byte) {
        made.append(pattern, 0, matched_ - shorter_[matched_]);
        matched_ = shorter_[matched_];
      }
      if (pattern[matched_] != byte) {
        made += byte;
      } else if (++matched_ == pattern.size()) {
        made += replace_.content;
        matched_ = 0;
      }
    }
    next().text(made);
  }
  void end() override {
    next().text(std::string_view(replace_.pattern).substr(0, matched_));
    matched_ = 0;
    next().end();
  }

 private:
  const Decoder::Replace& replace_;
  std::vector<std::size_t> shorter_;
  std::size_t matched_ = 0;  // bytes of the pattern that matched and are held
};

class MetaspaceStage : public DecodeStage {
 public:
  MetaspaceStage(const Decoder::Metaspace& metaspace, DecodeStage* following)
      : DecodeStage(following), metaspace_(metaspace) {}
  void text(std::string_view piece) override {
    std::string made;
    for (std::size_t at = 0, size = 0; at < piece.size(); at += size) {
      size = utf8_length(piece[at]);
      if (piece.substr(at, size) != metaspace_.replacement) {
        made += piece.substr(at, size);
      } else if (!first_ || !metaspace_.drops_first) {
        made += ' ';
      }
    }
    next().text(made);
  }
  void end() override {
    first_ = false;
    next().end();
  }

 private:
  const Decoder::Metaspace& metaspace_;
  bool first_ = true;
};

}  // namespace

std::unique_ptr<DecodeStage> make_stage(const Decoder::Step& step, DecodeStage* next) {
  if (std::holds_alternative<Decoder::ByteLevel>(step)) return std::make_unique<ByteLevelStage>(next);
  if (std::holds_alternative<Decoder::ByteFallback>(step)) return std::make_unique<ByteFallbackStage>(next);
  if (std::holds_alternative<Decoder::Fuse>(step)) return std::make_unique<FuseStage>(next);
  if (std::holds_alternative<Decoder::Spaced>(step)) return std::make_unique<SpacedStage>(next);
  if (const auto* strip = std::get_if<Decoder::Strip>(&step))
    return std::make_unique<StripStage>(*strip, next);
  if (const auto* replace = std::get_if<Decoder::Replace>(&step))
    return std::make_unique<ReplaceStage>(*replace, next);
  return std::make_unique<MetaspaceStage>(std::get<Decoder::Metaspace>(step), next);
}

std::unique_ptr<DecodeStage> make_collector(std::string& ready) {
  return std::make_unique<Collector>(ready);
}

}  // namespace routeopd::tokenizer
