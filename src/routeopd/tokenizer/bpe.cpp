// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/bpe.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "routeopd/base/hashes.h"
#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/byte_level.h"
#include "routeopd/tokenizer/merge_queue.h"
#include "routeopd/tokenizer/tokenizer_file.h"

namespace routeopd::tokenizer {
namespace {

constexpr std::size_t kMaxWhole = 256;  // bytes; longer words are merged without looking them up first
constexpr std::size_t kMaxScratch = 16U << 20U;  // bytes of each table to keep for the next word

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32U | static_cast<std::uint32_t>(right);
}

// The model's tokens, after checking the other fields.
const TokenizerFile::Tokens& tokens_of(const TokenizerFile& file) {
  const Json& model = formats::value_or_null(file.rest, "model");
  if (!model.is_object()) throw UserError("expected an object, got {}", model.type_name());
  const Json& type = formats::value_or_null(model, "type");
  if (type != "BPE") throw UserError("type: expected BPE, the only one supported, got {}", shown(type));
  formats::expect_only(model, "dropout", 0.0);
  formats::expect_only(model, "continuing_subword_prefix", "");
  formats::expect_only(model, "end_of_word_suffix", "");
  if (!file.tokens)
    throw UserError("vocab: expected an object, got {}", formats::value_or_null(model, "vocab").type_name());
  if (!file.merges)
    throw UserError("merges: expected a list, got {}", formats::value_or_null(model, "merges").type_name());
  return *file.tokens;
}

}  // namespace

Bpe::Bpe(const TokenizerFile& file, bool byte_level)
    : vocabulary_([&] {
        const TokenizerFile::Tokens& tokens = tokens_of(file);
        return formats::naming("vocab", [&] { return Vocabulary(tokens, byte_level); });
      }()),
      key_(hash_key()) {
  const Json& model = formats::value_or_null(file.rest, "model");
  formats::naming("merges", [&] { read_merges(*file.merges); });
  ignore_merges_ = formats::flag_or(model, "ignore_merges", false);
  fuse_unknown_ = formats::flag_or(model, "fuse_unk", false);
  byte_fallback_ = formats::flag_or(model, "byte_fallback", false);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    byte_ids_[byte] =
        byte_level || byte < 0x80 ? vocabulary_.id_of_bytes(std::string_view(&character, 1)) : -1;
    fallback_ids_[byte] = vocabulary_.id_of(fmt::format("<0x{:02X}>", byte));
  }
  read_unknown(model);
  whole_ =
      std::make_unique<std::atomic<std::uint8_t>[]>(static_cast<std::size_t>(vocabulary_.largest_id() + 1));
}

// If every byte has a symbol, nothing is ever unknown and the file's unknown token is not used.
void Bpe::read_unknown(const Json& model) {
  const bool complete = vocabulary_.byte_level() && std::none_of(byte_ids_.begin(), byte_ids_.end(),
                                                                 [](std::int32_t id) { return id < 0; });
  if (complete) {
    byte_fallback_ = false;
    return;
  }
  if (vocabulary_.byte_level() && byte_fallback_)
    throw UserError("byte_fallback: expected false where the vocabulary spells bytes, got true");
  if (formats::value_or_null(model, "unk_token").is_null()) return;
  const std::string token = short_string(model, "unk_token");
  unknown_ = vocabulary_.id_of(token);
  if (unknown_ < 0) throw UserError("unk_token: expected a token of the vocabulary, got {}", token);
}

void Bpe::Scratch::trim() {
  if (symbols.capacity() * sizeof(symbols[0]) > kMaxScratch) symbols = {};
  if (lengths.capacity() * sizeof(lengths[0]) > kMaxScratch) lengths = {};
  heap.trim(kMaxScratch);
  buckets.trim(kMaxScratch);
}

void Bpe::read_merges(const TokenizerFile::Merges& merges) {
  merges_.assign(hash_table_size(merges.size()), Merge{kFree, 0, 0});
  std::string joined;
  std::int32_t id = -1;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string_view left = merges.side(2 * i);
    const std::string_view right = merges.side(2 * i + 1);
    joined.assign(left).append(right);
    const std::int32_t left_id = vocabulary_.id_of(left);
    const std::int32_t right_id = vocabulary_.id_of(right);
    id = vocabulary_.id_of(joined, id + 1);  // training numbers tokens in the order of merges
    if (left_id < 0 || right_id < 0 || id < 0)
      throw UserError("expected tokens of the vocabulary, got {}, which with its two sides is not",
                      Json::array({left, right}).dump());
    const std::uint64_t pair = pair_of(left_id, right_id);
    std::size_t at = folded_product(pair, key_) & (merges_.size() - 1);
    while (merges_[at].pair != kFree && merges_[at].pair != pair) at = (at + 1) & (merges_.size() - 1);
    if (merges_[at].pair == kFree) ++merge_count_;
    merges_[at] = {pair, static_cast<std::int32_t>(i), id};  // of a pair listed twice the last counts
  }
}

const Bpe::Merge* Bpe::merge_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t at = folded_product(pair, key_) & (merges_.size() - 1);;
       at = (at + 1) & (merges_.size() - 1)) {
    if (merges_[at].pair == pair) return &merges_[at];
    if (merges_[at].pair == kFree) return nullptr;
  }
}

std::int32_t Bpe::id_of_character(std::string_view character) const {
  if (character.size() == 1) return byte_ids_[static_cast<unsigned char>(character.front())];
  return vocabulary_.id_of_bytes(character);
}

void Bpe::append_ids(std::string_view word, std::vector<std::int32_t>& ids, Scratch& scratch) const {
  const std::int32_t known = ignore_merges_ || word.size() <= kMaxWhole ? vocabulary_.id_of_bytes(word) : -1;
  if (known >= 0) {
    const std::uint8_t state = whole_[static_cast<std::size_t>(known)].load(std::memory_order_relaxed);
    if (ignore_merges_ || state == whole) {
      ids.push_back(known);
      return;
    }
  }
  const std::size_t begin = ids.size();
  if (word.size() <= kShort) {  // in bytes, and there are no more symbols than bytes
    append_symbols(word, ids);
    merge_short(ids, begin);
  } else {
    scratch.symbols.clear();
    append_symbols(word, scratch.symbols);
    merge_long(scratch);
    ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
  }
  if (known >= 0)
    whole_[static_cast<std::size_t>(known)].store(
        ids.size() == begin + 1 && ids.back() == known ? whole : broken, std::memory_order_relaxed);
}

void Bpe::append_symbols(std::string_view word, std::vector<std::int32_t>& symbols) const {
  // As `tokenizers` does: an unknown token is held until the next known symbol; byte tokens do not release
  // it.
  bool waiting = false;
  const auto flush = [&] {
    if (waiting) symbols.push_back(unknown_);
    waiting = false;
  };
  const bool bytes = vocabulary_.byte_level();
  for (std::size_t at = 0, size = 1; at < word.size(); at += size) {
    size = bytes ? 1 : utf8_length(word[at]);
    const std::string_view character = word.substr(at, size);
    if (const std::int32_t id = id_of_character(character); id >= 0) {
      flush();
      symbols.push_back(id);
      continue;
    }
    const auto fallback = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
    if (byte_fallback_ &&
        std::all_of(character.begin(), character.end(), [&](char byte) { return fallback(byte) >= 0; })) {
      for (const char byte : character) symbols.push_back(fallback(byte));
    } else if (unknown_ >= 0) {
      if (!fuse_unknown_) flush();
      waiting = true;
    }
  }
  flush();
}

// Searches all pairs for the lowest rank: for a few symbols, faster than any queue.
void Bpe::merge_short(std::vector<std::int32_t>& ids, std::size_t begin) const {
  std::size_t count = ids.size() - begin;
  if (count < 2) return;
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  std::int32_t* const symbols = ids.data() + begin;
  std::array<std::int32_t, kShort> ranks;    // of the pair that begins at each symbol
  std::array<std::int32_t, kShort> becomes;  // and its id
  const auto look_up = [&](std::size_t i) {
    const Merge* merge = merge_of(symbols[i], symbols[i + 1]);
    ranks[i] = merge == nullptr ? kNone : merge->rank;
    becomes[i] = merge == nullptr ? 0 : merge->id;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNone) break;
    symbols[best] = becomes[best];
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      if (i + 1 < count) {
        ranks[i] = ranks[i + 1];
        becomes[i] = becomes[i + 1];
      }
    }
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  ids.resize(begin + count);
}

void Bpe::merge_long(Scratch& scratch) const {
  if (scratch.symbols.size() <= kShort) {
    merge_short(scratch.symbols, 0);
  } else if (scratch.symbols.size() <= kMedium) {
    merge_linked(scratch.heap, scratch);
  } else {
    merge_linked(scratch.buckets, scratch);
  }
}

// A merged symbol covers several positions of the word. Its id is at the first of them, the others hold -1;
// its length is at the first and at the last, so that both neighbours can be found.
template <class Queue>
void Bpe::merge_linked(Queue& queue, Scratch& scratch) const {
  const auto count = static_cast<std::int32_t>(scratch.symbols.size());
  std::int32_t* const symbols = scratch.symbols.data();
  const auto offer = [&](std::int32_t left,
                         std::int32_t right) {  // queues the pair at these positions if it has a merge
    const Merge* merge = merge_of(symbols[left], symbols[right]);
    if (merge != nullptr) queue.push({merge->rank, left});
  };
  for (std::int32_t place = 0; place + 1 < count; ++place) offer(place, place + 1);
  if (queue.empty()) return;
  scratch.lengths.assign(static_cast<std::size_t>(count), 1);
  std::uint16_t* const lengths = scratch.lengths.data();  // a token is shorter than 64 kB (vocabulary.h)
  while (!queue.empty()) {
    const auto [rank, place] = queue.pop();
    const std::int32_t right = place + lengths[place];
    if (symbols[place] < 0 || right == count) continue;
    // An offer is stale if either side has become another symbol since.
    const Merge* merge = merge_of(symbols[place], symbols[right]);
    if (merge == nullptr || merge->rank != rank) continue;
    const std::int32_t end = right + lengths[right];
    symbols[place] = merge->id;
    symbols[right] = -1;
    lengths[place] = static_cast<std::uint16_t>(end - place);
    lengths[end - 1] = lengths[place];
    if (place > 0) offer(place - lengths[place - 1], place);
    if (end < count) offer(place, end);
  }
  std::size_t kept = 0;
  for (std::int32_t place = 0; place < count; place += lengths[place]) symbols[kept++] = symbols[place];
  scratch.symbols.resize(kept);
}

}  // namespace routeopd::tokenizer
