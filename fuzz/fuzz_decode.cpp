// libFuzzer: any bytes as ids and as text, for a small tokenizer of each kind. Decoding id by id must equal
// decoding at once, and encoded text must come back if the tokenizer is lossless.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/utf8.h"
#include "routeopd/tokenizer/byte_level.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace {

using routeopd::Json;
using routeopd::UserError;
using routeopd::tokenizer::StreamDecoder;
using routeopd::tokenizer::Tokenizer;

Json added(int id, const char* content, bool normalized, bool special) {
  return {{"id", id},        {"content", content},       {"single_word", false}, {"lstrip", id % 2 == 0},
          {"rstrip", false}, {"normalized", normalized}, {"special", special}};
}

// All bytes, "Ġ a" and a special token: nothing is lost.
Json byte_level() {
  Json vocabulary = Json::object();
  for (const std::string& symbol : routeopd::tokenizer::byte_symbols())
    vocabulary[symbol] = vocabulary.size();
  vocabulary["Ġa"] = 256;
  vocabulary["aa"] = 257;
  vocabulary["Ã©"] = 258;
  return {{"version", "1.0"},
          {"added_tokens", Json::array({added(259, "<s>", false, true)})},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocabulary},
            {"merges",
             Json::array({Json::array({"Ġ", "a"}), Json::array({"a", "a"}), Json::array({"Ã", "©"})})}}}};
}

Json characters() {
  Json vocabulary = {{"<unk>", 0}, {"▁", 1}, {"a", 2}, {"▁a", 3}, {"aa", 4}, {"é", 5}};
  for (int byte = 0; byte < 256; byte += byte % 7 == 0 ? 2 : 1)
    vocabulary[fmt::format("<0x{:02X}>", byte)] = vocabulary.size();
  const int size = static_cast<int>(vocabulary.size());
  const Json space = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const Json back = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 1}};
  return {
      {"version", "1.0"},
      {"added_tokens", Json::array({added(size, "<s>", false, true), added(size + 1, "a b", true, false)})},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, space, {{"type", "NFC"}}}}}},
      {"decoder",
       {{"type", "Sequence"}, {"decoders", {back, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocabulary},
        {"merges", Json::array({"▁ a", "a a"})}}}};
}

Json metaspace() {
  Json file = characters();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  file["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, file["pre_tokenizer"]}}};
  return file;
}

const std::vector<Tokenizer>& tokenizers() {
  static const std::vector<Tokenizer> all = [] {
    std::vector<Tokenizer> made;
    for (const Json& file : {byte_level(), characters(), metaspace()})
      made.push_back(Tokenizer::from_json(file.dump(), "fixed"));
    return made;
  }();
  return all;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool skip) {
  StreamDecoder stream(tokenizer, skip);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string piece = stream.add(id);
    ROUTEOPD_INVARIANT(routeopd::find_invalid_utf8(piece) == std::string::npos);
    text += piece;
  }
  return text + stream.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const Tokenizer& tokenizer : tokenizers()) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i + 1 < size; i += 2)
      ids.push_back((data[i] * 256 + data[i + 1]) % tokenizer.real_ids());
    for (const bool skip : {false, true})
      ROUTEOPD_INVARIANT(streamed(tokenizer, ids, skip) == tokenizer.decode(ids, skip));
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
      ids = tokenizer.encode(text);
    } catch (const UserError&) {  // not UTF-8
      continue;
    }
    const std::string back = tokenizer.decode(ids);
    ROUTEOPD_INVARIANT(streamed(tokenizer, ids, false) == back);
    ROUTEOPD_INVARIANT(&tokenizer != &tokenizers().front() || back == text);
  }
  return 0;
}
