//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "routeopd/formats/json_file.h"
#include "routeopd/text/added_tokens.h"
#include "routeopd/text/bpe.h"
#include "routeopd/text/byte_level.h"
#include "routeopd/text/pre_tokenizer.h"
#include "routeopd/text/utf8.h"

namespace routeopd::text {
namespace {

constexpr std::int64_t kMaxFile = 256 << 20;
constexpr std::size_t kMaxText = 1U << 30U;  // places in a text fit 32 bits

// Refuses a component unless it is ByteLevel, or none where that is allowed.
void expect_byte_level(const Json& file, const char* key, bool none_allowed) {
  const Json& component = formats::value_or_null(file, key);
  if (none_allowed && component.is_null()) return;
  const Json& type = component.is_object() ? formats::value_or_null(component, "type") : component;
  if (type != "ByteLevel")
    throw UserError("{}: expected ByteLevel{}, the only one supported, got {}", key,
                    none_allowed ? " or none" : "", shown(type));
}

}  // namespace

// What does not change once it is read: threads may share it.
struct Tokenizer::Parts {
  explicit Parts(const Json& file)
      : bpe(formats::naming("model",
                            [&] { return std::make_unique<Bpe>(formats::value_or_null(file, "model")); })),
        pre_tokenizer(formats::naming(
            "pre_tokenizer", [&] { return PreTokenizer(formats::value_or_null(file, "pre_tokenizer")); })) {
    formats::expect_only(file, "version", "1.0");
    for (const char* key : {"truncation", "padding", "normalizer"}) formats::expect_none(file, key);
    expect_byte_level(file, "post_processor", true);  // which changes offsets, never ids
    expect_byte_level(file, "decoder", false);
    real_ids = bpe->largest_id() + 1;
    for (AddedToken& token : formats::naming("added_tokens", [&] {
           return read_added_tokens(formats::value_or_null(file, "added_tokens"), *bpe);
         })) {
      (token.normalized ? second_cut : first_cut).add(token.content, token.id);
      real_ids = std::max(real_ids, token.id + 1);
      added_ids.emplace(token.content, token.id);
      added.emplace(token.id, std::move(token));
    }
  }

  const std::string* token_of(std::int32_t id) const {
    const auto found = added.find(id);
    return found == added.end() ? bpe->token_of(id) : &found->second.content;
  }

  std::unique_ptr<Bpe> bpe;  // by pointer: its tables point into one another
  PreTokenizer pre_tokenizer;
  TokenCutter first_cut;   // tokens looked for in the text as it is
  TokenCutter second_cut;  // and those looked for in what the normaliser makes of the rest
  std::unordered_map<std::int32_t, AddedToken> added;
  std::unordered_map<std::string, std::int32_t> added_ids;
  std::int32_t real_ids = 0;
};

Tokenizer::Tokenizer(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "tokenizer.json";
  const Json file = formats::read_json_object(path, kMaxFile);
  parts_ = formats::naming(path.string(), [&] { return std::make_unique<Parts>(file); });
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  if (text.size() > kMaxText)
    throw UserError("text: expected at most {} bytes, got {}", kMaxText, text.size());
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    throw UserError("text: expected UTF-8, got byte 0x{:02x} at offset {}",
                    static_cast<unsigned char>(text[at]), at);
  std::vector<std::int32_t> ids;
  Bpe::Scratch scratch;
  std::vector<TokenCutter::Piece> pieces;
  std::vector<TokenCutter::Piece> parts;
  parts_->first_cut.cut(text, pieces);
  for (const TokenCutter::Piece& piece : pieces) {
    parts.assign(1, piece);
    if (piece.id < 0) {
      parts.clear();
      parts_->second_cut.cut(piece.text, parts);
    }
    for (const TokenCutter::Piece& part : parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        parts_->pre_tokenizer.for_each_word(
            part.text, [&](std::string_view word) { parts_->bpe->append_ids(word, ids, scratch); });
      }
    }
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    const std::string* token = parts_->token_of(id);
    if (token == nullptr)
      throw UserError("id: expected one of the tokenizer's, below {}, got {}; is it another model's?",
                      real_ids(), id);
    const auto found = parts_->added.find(id);
    if (skip_special && found != parts_->added.end() && found->second.special) continue;
    append_bytes_of(*token, bytes);
  }
  return lossy_utf8(bytes);
}

std::int32_t Tokenizer::real_ids() const {
  return parts_->real_ids;
}

std::int32_t Tokenizer::id_of(std::string_view token) const {
  const auto found = parts_->added_ids.find(std::string(token));
  return found == parts_->added_ids.end() ? parts_->bpe->id_of(token) : found->second;
}

std::string Tokenizer::token_of(std::int32_t id) const {
  const std::string* token = parts_->token_of(id);
  return token == nullptr ? "" : *token;
}

}  // namespace routeopd::text
