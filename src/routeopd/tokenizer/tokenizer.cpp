// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "routeopd/base/display.h"
#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/added_tokens.h"
#include "routeopd/tokenizer/bpe.h"
#include "routeopd/tokenizer/byte_level.h"
#include "routeopd/tokenizer/declared_tokens.h"
#include "routeopd/tokenizer/decoder.h"
#include "routeopd/tokenizer/normalizer.h"
#include "routeopd/tokenizer/post_processor.h"
#include "routeopd/tokenizer/pre_tokenizer.h"

namespace routeopd::tokenizer {
namespace {

constexpr std::size_t kMaxKept = 16U << 20U;  // bytes of each table that a thread keeps
constexpr std::size_t kMaxText = 1U << 30U;   // positions in a text fit 32 bits

// A component of the file; its errors name it.
template <class Part>
Part part_of(const TokenizerFile& file, const char* key) {
  return formats::naming(key, [&] { return Part(formats::value_or_null(file.rest, key)); });
}

std::int32_t one_past_largest(const Vocabulary& vocabulary, const std::vector<AddedToken>& added) {
  std::int32_t largest = vocabulary.largest_id();
  for (const AddedToken& token : added) largest = std::max(largest, token.id);
  return largest + 1;
}

// Buffers for encoding, kept per thread: for a long text, allocating them takes longer than the work.
struct Workspace {
  Bpe::Scratch scratch;
  std::string storage;
  std::vector<TokenCutter::Piece> pieces;
  std::vector<TokenCutter::Piece> parts;

  // Frees what a very long text took.
  void trim() {
    scratch.trim();
    if (storage.capacity() > kMaxKept) storage = {};
    if (pieces.capacity() > kMaxKept / sizeof(pieces[0])) pieces = {};
    if (parts.capacity() > kMaxKept / sizeof(parts[0])) parts = {};
  }
};

}  // namespace

// The parts of a tokenizer: immutable after reading, so that threads may share them.
struct Tokenizer::Parts {
  explicit Parts(const TokenizerFile& file);

  // How an added token is decoded: as its normal form if that is what is searched for. `tokenizers`
  // recognizes special tokens by the decoded text, so that one whose normal form differs is never skipped.
  struct DecodedToken {
    std::string text;
    std::string bytes;  // as ByteLevel decodes it
    bool special;
  };

  // Fills the cutters and `decoded`, and sorts `added` by id.
  void read_spellings();

  // Throws UserError for an id that does not exist.
  void expect_id(std::int32_t id) const;
  std::ptrdiff_t added_place(std::int32_t id) const;             // in `added`, -1 for none
  bool is_skipped(std::int32_t id) const;                        // when special tokens are skipped
  std::string text_of(std::int32_t id) const;                    // the input of the decoder
  void append_bytes(std::int32_t id, std::string& bytes) const;  // as ByteLevel decodes it

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::vector<AddedToken> added;  // in the order of their ids
  std::int32_t real_ids;
  PostProcessor post_processor;
  Decoder decoder;
  std::vector<DecodedToken> decoded;                             // of `added`
  TokenCutter first_cut;                                         // tokens searched in the text itself
  TokenCutter second_cut;                                        // tokens searched in the normalized rest
  std::unordered_map<std::string_view, std::int32_t> added_ids;  // by content
};

Tokenizer::Parts::Parts(const TokenizerFile& file)
    : normalizer(part_of<Normalizer>(file, "normalizer")),
      pre_tokenizer(part_of<PreTokenizer>(file, "pre_tokenizer")),
      bpe(formats::naming("model", [&] { return Bpe(file, pre_tokenizer.byte_level()); })),
      added(formats::naming("added_tokens",
                            [&] {
                              return read_added_tokens(formats::value_or_null(file.rest, "added_tokens"),
                                                       bpe.vocabulary());
                            })),
      real_ids(one_past_largest(bpe.vocabulary(), added)),
      post_processor(formats::naming(
          "post_processor",
          [&] { return PostProcessor(formats::value_or_null(file.rest, "post_processor"), real_ids); })),
      decoder(part_of<Decoder>(file, "decoder")) {
  formats::expect_only(file.rest, "version", "1.0");
  for (const char* key : {"truncation", "padding"}) formats::expect_none(file.rest, key);
  if (pre_tokenizer.heeds_first() && normalizer.may_delete())
    throw UserError("pre_tokenizer: expected no prepend_scheme first after a normalizer that deletes text");
  read_spellings();
}

void Tokenizer::Parts::read_spellings() {
  std::unordered_set<std::string_view> specials;
  for (const AddedToken& token : added) {
    if (token.special) specials.insert(token.content);
  }
  std::vector<std::string> spellings;
  for (const AddedToken& token : added) {
    std::string storage;
    spellings.emplace_back(token.normalized ? normalizer.normalized(token.content, storage) : token.content);
    if (spellings.back().empty())
      throw UserError("added_tokens: {}: expected a token that the normalizer leaves, got nothing of it",
                      token.content);
  }
  // Of two tokens with the same spelling a special one counts, then the first of the file.
  for (const bool special : {true, false}) {
    for (std::size_t i = 0; i < added.size(); ++i) {
      if (added[i].special == special)
        (added[i].normalized ? second_cut : first_cut).add(spellings[i], added[i]);
    }
  }
  std::vector<std::size_t> order(added.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return added[a].id < added[b].id; });
  std::vector<AddedToken> by_id;
  for (const std::size_t place : order) {
    DecodedToken& token = decoded.emplace_back();
    token.text = spellings[place];
    append_bytes_of(token.text, token.bytes);
    token.special = specials.contains(token.text);
    by_id.push_back(added[place]);
  }
  added = std::move(by_id);
  for (const AddedToken& token : added) added_ids.emplace(token.content, token.id);
}

void Tokenizer::Parts::expect_id(std::int32_t id) const {
  if (!bpe.vocabulary().has(id) && added_place(id) < 0)
    throw UserError("id: expected one of the tokenizer's, below {}, got {}; is it another model's?", real_ids,
                    id);
}

std::ptrdiff_t Tokenizer::Parts::added_place(std::int32_t id) const {
  if (added.empty() || id < added.front().id || id > added.back().id) return -1;
  const auto found =
      std::lower_bound(added.begin(), added.end(), id,
                       [](const AddedToken& token, std::int32_t each) { return token.id < each; });
  return found->id == id ? found - added.begin() : -1;
}

bool Tokenizer::Parts::is_skipped(std::int32_t id) const {
  const std::ptrdiff_t place = added_place(id);
  return place >= 0 && decoded[static_cast<std::size_t>(place)].special;
}

std::string Tokenizer::Parts::text_of(std::int32_t id) const {
  const std::ptrdiff_t place = added_place(id);
  return place >= 0 ? decoded[static_cast<std::size_t>(place)].text : bpe.vocabulary().token_of(id);
}

void Tokenizer::Parts::append_bytes(std::int32_t id, std::string& bytes) const {
  if (const std::ptrdiff_t place = added_place(id); place >= 0) {
    bytes += decoded[static_cast<std::size_t>(place)].bytes;
  } else if (bpe.vocabulary().byte_level()) {
    bytes += bpe.vocabulary().bytes_of(id);
  } else {
    append_bytes_of(bpe.vocabulary().bytes_of(id), bytes);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Tokenizer::Tokenizer(const std::filesystem::path& directory)
    : Tokenizer(from_json(formats::read_text_file(directory / "tokenizer.json", kMaxTokenizerFile),
                          (directory / "tokenizer.json").string())) {
  check_declared_tokens(directory, *this);
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::from_json(std::string_view text, std::string_view where) {
  const TokenizerFile file = read_tokenizer_file(text, where);
  return Tokenizer(formats::naming(where, [&] { return std::make_unique<Parts>(file); }));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special) const {
  if (text.size() > kMaxText)
    throw UserError("text: expected at most {} bytes, got {}", kMaxText, text.size());
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    throw UserError("text: expected UTF-8, got byte 0x{:02x} at offset {}",
                    static_cast<unsigned char>(text[at]), at);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  if (add_special) ids = parts_->post_processor.before();
  thread_local Workspace kept;
  Workspace& workspace = kept;
  auto& pieces = workspace.pieces;
  auto& parts = workspace.parts;
  pieces.clear();
  parts_->first_cut.cut(text, pieces);
  for (const TokenCutter::Piece& piece : pieces) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    const std::string_view normal = parts_->normalizer.normalized(piece.text, workspace.storage);
    const bool at_beginning = piece.text.data() == text.data();
    parts.clear();
    parts_->second_cut.cut(normal, parts);
    for (const TokenCutter::Piece& part : parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      parts_->pre_tokenizer.for_each_word(
          part.text, at_beginning && part.text.data() == normal.data(),
          [&](std::string_view word) { parts_->bpe.append_ids(word, ids, workspace.scratch); });
    }
  }
  if (add_special)
    ids.insert(ids.end(), parts_->post_processor.after().begin(), parts_->post_processor.after().end());
  workspace.trim();
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string text;
  std::optional<Decoder::Run> run;
  if (!parts_->decoder.only_byte_level()) run.emplace(parts_->decoder);
  for (const std::int32_t id : ids) {
    parts_->expect_id(id);
    if (skip_special && parts_->is_skipped(id)) continue;
    if (run) {
      run->add(parts_->text_of(id), text);
    } else {
      parts_->append_bytes(id, text);
    }
  }
  if (!run) return lossy_utf8(text);
  run->finish(text);
  return text;
}

std::int32_t Tokenizer::real_ids() const {
  return parts_->real_ids;
}

std::int32_t Tokenizer::id_of(std::string_view token) const {
  const auto found = parts_->added_ids.find(token);
  return found == parts_->added_ids.end() ? parts_->bpe.vocabulary().id_of(token) : found->second;
}

std::string Tokenizer::token_of(std::int32_t id) const {
  const std::ptrdiff_t place = parts_->added_place(id);
  return place >= 0 ? parts_->added[static_cast<std::size_t>(place)].content
                    : parts_->bpe.vocabulary().token_of(id);
}

std::string Tokenizer::bytes_of(std::int32_t id) const {
  if (token_of(id).empty()) return {};
  std::string once;
  if (parts_->decoder.only_byte_level()) {
    parts_->append_bytes(id, once);
    return once;
  }
  const std::string token = parts_->text_of(id);
  if (parts_->bpe.byte_fallback() && parts_->added_place(id) < 0) {
    unsigned value = 0;
    const char* const digits = token.data() + 3;
    const bool framed = token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
    if (framed && std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2)
      return std::string(1, static_cast<char>(value));
  }
  // What decoders do at the beginning of a text affects the first of two tokens, not the second.
  once = decode(std::array{id});
  const std::string twice = decode(std::array{id, id});
  return twice.starts_with(once) ? twice.substr(once.size()) : once;
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const {
  return parts_->added;
}

std::string Tokenizer::description() const {
  std::string line = fmt::format(
      "{} BPE{}, {} tokens, {} merges", parts_->bpe.vocabulary().byte_level() ? "byte-level" : "character",
      parts_->bpe.byte_fallback() ? " with byte fallback" : "", grouped(parts_->bpe.vocabulary().size()),
      grouped(parts_->bpe.merge_count()));
  if (const std::string normal = parts_->normalizer.description(); !normal.empty()) line += ", " + normal;
  return fmt::format("{}, {} added token{}", line, grouped(parts_->added.size()),
                     parts_->added.size() == 1 ? "" : "s");
}

struct StreamDecoder::State {
  const Tokenizer::Parts& parts;
  bool skip_special;
  LossyUtf8 bytes;                  // where the decoder is ByteLevel alone
  std::optional<Decoder::Run> run;  // where it is not
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : state_(new State{*tokenizer.parts_, skip_special, {}, {}}) {
  if (!state_->parts.decoder.only_byte_level()) state_->run.emplace(state_->parts.decoder);
}

StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::add(std::int32_t id) {
  const Tokenizer::Parts& parts = state_->parts;
  parts.expect_id(id);
  std::string text;
  if (state_->skip_special && parts.is_skipped(id)) return text;
  if (state_->run) {
    state_->run->add(parts.text_of(id), text);
  } else {
    std::string bytes;
    parts.append_bytes(id, bytes);
    state_->bytes.add(bytes, text);
  }
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  if (state_->run) {
    state_->run->finish(text);
  } else {
    state_->bytes.finish(text);
  }
  return text;
}

}  // namespace routeopd::tokenizer
