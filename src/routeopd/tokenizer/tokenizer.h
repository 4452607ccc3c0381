// tokenizer.json of a Hugging Face model directory: text to ids and back, equal to the `tokenizers` library.
//
// Supported: BPE over bytes (ByteLevel) or over characters (Metaspace, byte fallback, unknown token), with
// the normalizers, pre-tokenizers, post-processors and decoders listed in the headers of those names, and
// added tokens with all their flags. A component outside this set is refused by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/tokenizer/added_tokens.h"

namespace routeopd::tokenizer {

// Threads may share one.
class Tokenizer {
 public:
  // Reads DIR/tokenizer.json. Throws UserError naming the file and the component that is wrong or not
  // supported, or a token that the directory declares and the file lacks (declared_tokens.h).
  explicit Tokenizer(const std::filesystem::path& directory);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // The same from the text of such a file; every error begins with `where`.
  static Tokenizer from_json(std::string_view text, std::string_view where);

  // Ids of `text` (UTF-8). Added tokens are cut out of the text first. `add_special`: with the ids that the
  // file's post-processor adds before and after. Throws UserError when it is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special = false) const;

  // Text of `ids`. Bytes that form no character become U+FFFD, as in `tokenizers`. Throws UserError for an id
  // that does not exist.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  // One more than the largest id: the real ids are [0, real_ids). A model's embedding may have more rows.
  std::int32_t real_ids() const;

  // The id of a token in the file's own spelling ("Ġthe", "<|endoftext|>"), -1 when there is none.
  std::int32_t id_of(std::string_view token) const;

  // The file's spelling of an id; empty where an id in range has none.
  std::string token_of(std::int32_t id) const;

  // The bytes that an id stands for inside a text, perhaps a part of a character; empty where an id in range
  // has none.
  std::string bytes_of(std::int32_t id) const;

  // In the order of their ids.
  const std::vector<AddedToken>& added_tokens() const;

  // One line: "byte-level BPE, 151,643 tokens, 151,387 merges, NFC, 26 added tokens".
  std::string description() const;

 private:
  friend class StreamDecoder;
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

// Text of ids that come one by one, as from a model that generates: whole characters, as soon as they are
// certain. What add() and finish() return, concatenated, is Tokenizer::decode() of all ids. The tokenizer
// must outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  // Takes the next id and returns the text that is now certain, perhaps none. Throws UserError for an id that
  // does not exist, and is then unchanged.
  std::string add(std::int32_t id);

  // The rest, of ids that made no whole character. Call it once, at the end.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace routeopd::tokenizer
