// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/vocabulary.h"

#include <algorithm>

#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"
#include "routeopd/tokenizer/byte_level.h"

namespace routeopd::tokenizer {
namespace {

// Ids may have gaps, for which the tables have room: at most this many ids per token.
constexpr std::size_t kMaxSpread = 16;
constexpr std::size_t kAlwaysAllowedIds = 1U << 16U;
constexpr std::size_t kMaxToken = 0xFFFF;

// The hash key of a token: a verbatim one has another key than the bytes that look the same.
std::uint64_t key_for(std::uint64_t key, bool verbatim) {
  return verbatim ? ~key : key;
}

}  // namespace

Vocabulary::Vocabulary(const TokenizerFile::Tokens& tokens, bool byte_level)
    : byte_level_(byte_level), size_(tokens.size()), key_(hash_key()) {
  std::int32_t largest = -1;
  for (const TokenizerFile::Token& token : tokens.list) largest = std::max(largest, token.id);
  const std::size_t ids = static_cast<std::size_t>(largest + 1);
  if (ids > std::max(kAlwaysAllowedIds, kMaxSpread * size_))
    throw UserError("expected ids close to one another, got {} for {} tokens", largest, size_);
  entries_.resize(ids);
  places_.assign(hash_table_size(size_), Place{0, -1});
  bytes_.reserve(tokens.bytes.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens.text(i);
    const std::int32_t id = tokens.list[i].id;
    if (token.size() > kMaxToken)
      throw UserError("{}…: expected a token of at most {} bytes, got {}", token.substr(0, 40), kMaxToken,
                      token.size());
    Entry& entry = entries_[static_cast<std::size_t>(id)];
    if (entry.present)
      throw UserError("expected each id once, got {} for both {} and {}", id, token_of(id), token);
    entry.begin = static_cast<std::uint32_t>(bytes_.size());
    entry.verbatim = byte_level && !append_unspelled(token, bytes_);
    if (!byte_level || entry.verbatim) bytes_ += token;
    entry.size = static_cast<std::uint32_t>(bytes_.size() - entry.begin) & 0x3FFFFFFFU;
    entry.present = true;
    insert(id);
  }
}

void Vocabulary::insert(std::int32_t id) {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  const std::string_view bytes = bytes_of(id);
  const std::uint64_t hash = keyed_hash(bytes, key_for(key_, entry.verbatim));
  for (std::size_t at = hash & (places_.size() - 1);; at = (at + 1) & (places_.size() - 1)) {
    Place& place = places_[at];
    if (place.id < 0) {
      place = {static_cast<std::uint32_t>(hash >> 32U), id};
      return;
    }
    if (place.hash == static_cast<std::uint32_t>(hash >> 32U) && bytes_of(place.id) == bytes &&
        entries_[static_cast<std::size_t>(place.id)].verbatim == entry.verbatim)
      throw UserError("expected each key once, got {} twice", token_of(id));
  }
}

std::int32_t Vocabulary::find(std::string_view bytes, bool verbatim) const {
  const std::uint64_t hash = keyed_hash(bytes, key_for(key_, verbatim));
  for (std::size_t at = hash & (places_.size() - 1);; at = (at + 1) & (places_.size() - 1)) {
    const Place& place = places_[at];
    if (place.id < 0) return -1;
    if (place.hash == static_cast<std::uint32_t>(hash >> 32U) && bytes_of(place.id) == bytes &&
        entries_[static_cast<std::size_t>(place.id)].verbatim == verbatim)
      return place.id;
  }
}

std::int32_t Vocabulary::id_of(std::string_view token) const {
  return id_of(token, -1);
}

std::int32_t Vocabulary::id_of(std::string_view token, std::int32_t guess) const {
  std::string unspelled;
  const bool verbatim = byte_level_ && !append_unspelled(token, unspelled);
  const std::string_view bytes = byte_level_ && !verbatim ? std::string_view(unspelled) : token;
  if (has(guess) && entries_[static_cast<std::size_t>(guess)].verbatim == verbatim &&
      bytes_of(guess) == bytes)
    return guess;
  return find(bytes, verbatim);
}

std::string Vocabulary::token_of(std::int32_t id) const {
  if (!has(id)) return "";
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return byte_level_ && !entry.verbatim ? spelled(bytes_of(id)) : std::string(bytes_of(id));
}

}  // namespace routeopd::tokenizer
