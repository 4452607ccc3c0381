// tokenizer.json of a Hugging Face model directory: text to ids and back, equal to the `tokenizers` library.
//
// Understood: byte-level BPE (merges as pairs or strings, `ignore_merges`) behind a ByteLevel pre-tokenizer
// with the GPT-2 pattern or a Split pattern, added tokens, the ByteLevel decoder. A component outside this set
// is refused by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace routeopd::text {

class Tokenizer {
 public:
  // Reads DIR/tokenizer.json. Throws UserError with the file and the component that is wrong or not
  // supported.
  explicit Tokenizer(const std::filesystem::path& directory);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Ids of `text` (UTF-8). Added tokens are cut out of the text first. Throws UserError when it is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text) const;

  // Text of `ids`. Bytes that make no character become U+FFFD, as in `tokenizers`. Throws UserError for an id
  // that does not exist.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  // One more than the largest id: the real ids are [0, real_ids). A model's embedding may have more rows.
  std::int32_t real_ids() const;

  // The id of a token in the file's own spelling ("Ġthe", "<|endoftext|>"), -1 when there is none.
  std::int32_t id_of(std::string_view token) const;

  // The file's spelling of an id; empty where an id in range has none.
  std::string token_of(std::int32_t id) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace routeopd::text
