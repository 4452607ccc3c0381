// tokenizer.json as it is read: the vocabulary and the merges, which are nearly all of it, go directly into
// flat lists, the rest into a small JSON value. Bounded in size and depth, without repeated keys, as in
// formats/json_file.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd::tokenizer {

inline constexpr std::int64_t kMaxTokenizerFile = 256 << 20;  // bytes

struct TokenizerFile {
  struct Token {
    std::uint32_t end;  // of its bytes, which begin where the previous token ends
    std::int32_t id;
  };
  // "vocab" of "model": strings with ids in [0, 2^24), in the order of the file, repeated ones too.
  struct Tokens {
    std::string bytes;
    std::vector<Token> list;

    std::size_t size() const { return list.size(); }
    std::string_view text(std::size_t i) const {
      const std::size_t begin = i == 0 ? 0 : list[i - 1].end;
      return std::string_view(bytes).substr(begin, list[i].end - begin);
    }
  };
  // "merges": the two sides of each, concatenated.
  struct Merges {
    std::string bytes;
    std::vector<std::uint32_t> ends;  // two per merge

    std::size_t size() const { return ends.size() / 2; }
    std::string_view side(std::size_t i) const {
      const std::size_t begin = i == 0 ? 0 : ends[i - 1];
      return std::string_view(bytes).substr(begin, ends[i] - begin);
    }
  };

  Json rest = Json::object();  // all but those two
  std::optional<Tokens> tokens;
  std::optional<Merges> merges;
};

// Throws UserError that begins with `where` unless `text` is a JSON object whose vocabulary and merges, if
// any, have the right form.
TokenizerFile read_tokenizer_file(std::string_view text, std::string_view where);

// What the readers of the file's components share: {"type": …} with flags, short strings and lists.

inline constexpr std::size_t kMaxSteps = 16;  // of a normalizer, a pre-tokenizer or a decoder

// The component's type. Throws UserError unless it is an object with one.
std::string component_type(const Json& component);

// The list under `key`, of at most 64 members. Throws UserError for anything else.
const Json& component_list(const Json& component, const char* key);

// The boolean under `key`. Throws UserError for anything else.
bool flag_of(const Json& component, const char* key);

// A string of at most 1024 bytes.
std::string short_string(const Json& component, const char* key);

// A string of one character.
std::string one_character(const Json& component, const char* key);

}  // namespace routeopd::tokenizer
