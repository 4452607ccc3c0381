// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/token_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "routeopd/base/utf8.h"

namespace routeopd::serve {
namespace {

constexpr std::size_t kCharacterTokens = 4;  // a character has four bytes at most

bool ends_incomplete(const std::string& text) {
  return text.ends_with(kReplacementCharacter);
}

struct Entry {
  std::int32_t id;
  float logprob;
  std::int32_t rank;
};

// The token itself, then the `top` most likely ones without it. The token's own value is that of the list
// where it is there, so that both are the same number.
std::vector<Entry> entries_of(const TokenRow& row, std::size_t top) {
  std::vector<Entry> entries = {{row.id, row.logprob, row.rank}};
  for (std::size_t i = 0; i < std::min(top, row.top_ids.size()); ++i) {
    if (row.top_ids[i] < 0) break;
    const Entry entry{row.top_ids[i], row.top_logits[i] - row.logsumexp, static_cast<std::int32_t>(i) + 1};
    if (entry.id == row.id) {
      entries.front() = {entry.id, entry.logprob, row.rank > 0 ? row.rank : entry.rank};
    } else {
      entries.push_back(entry);
    }
  }
  return entries;
}

// The tokens before and among the rows, as names need them.
class Names {
 public:
  Names(const TokenNames& names, std::span<const std::int32_t> before) : names_(names) {
    before = before.last(std::min(before.size(), kCharacterTokens));
    before_.assign(before.begin(), before.end());
  }
  std::string of(std::int32_t id) const { return names_.name(id, before_); }
  void pass(std::int32_t id) {
    if (before_.size() == kCharacterTokens) before_.erase(before_.begin());
    before_.push_back(id);
  }

 private:
  const TokenNames& names_;
  std::vector<std::int32_t> before_;
};

// {name: value}. Ids that read the same share a key, which keeps the larger value.
void write_named_values(JsonText& json, const std::vector<Entry>& entries, const Names& names) {
  std::vector<std::pair<std::string, float>> values;
  std::unordered_map<std::string, std::size_t> places;
  for (const Entry& entry : entries) {
    std::string name = names.of(entry.id);
    const auto [place, is_new] = places.emplace(name, values.size());
    if (is_new) {
      values.emplace_back(std::move(name), entry.logprob);
    } else {
      values[place->second].second = std::max(values[place->second].second, entry.logprob);
    }
  }
  json.open('{');
  for (const auto& [name, value] : values) json.key(name).number(value);
  json.close('}');
}

void write_chat_token(JsonText& json, const std::string& name, float logprob) {
  json.key("token").text(name).key("logprob").number(logprob).key("bytes").open('[');
  for (const char byte : name) json.integer(static_cast<unsigned char>(byte));
  json.close(']');
}

}  // namespace

std::string TokenNames::bytes_of(std::int32_t id) const {
  return id < 0 || id >= tokenizer_->real_ids() ? std::string() : tokenizer_->bytes_of(id);
}

std::string TokenNames::name(std::int32_t id, std::span<const std::int32_t> before) const {
  if (tokenizer_ == nullptr) return fmt::format("token_id:{}", id);
  const std::string bytes = bytes_of(id);
  std::string text = lossy_utf8(bytes);
  return ends_incomplete(text) ? in_context(bytes, before) : text;
}

std::string TokenNames::in_context(const std::string& bytes, std::span<const std::int32_t> before) const {
  // The fewest tokens in front with which the text is whole; what of them is a part of a character belongs to
  // the name, what is text of its own does not.
  std::string text = bytes;
  std::string name;
  bool parts = true;  // all tokens so far are parts of the character
  for (std::size_t back = 1; back <= std::min(before.size(), kCharacterTokens); ++back) {
    const std::string piece = bytes_of(before[before.size() - back]);
    parts = parts && ends_incomplete(lossy_utf8(piece));
    if (!parts) break;
    text.insert(0, piece);
    name = lossy_utf8(text);
    if (!ends_incomplete(name)) return name;
  }
  return {};
}

void write_completion_logprobs(JsonText& json, std::span<const TokenRow> rows, const TokenNames& names,
                               std::span<const std::int32_t> before, std::size_t top, std::int64_t offset) {
  JsonText values, tokens, tops;
  values.open('[');
  tokens.open('[');
  tops.open('[');
  json.open('{').key("text_offset").open('[');
  Names words(names, before);
  for (const TokenRow& row : rows) {
    const std::string name = words.of(row.id);
    json.integer(offset);
    offset += count_code_points(name);
    tokens.text(name);
    if (row.has_value) {
      const std::vector<Entry> entries = entries_of(row, top);
      values.number(entries.front().logprob);
      write_named_values(tops, entries, words);
    } else {
      values.null();
      tops.null();
    }
    words.pass(row.id);
  }
  json.close(']');
  json.key("token_logprobs").raw(values.close(']').str());
  json.key("tokens").raw(tokens.close(']').str());
  json.key("top_logprobs").raw(tops.close(']').str());
  json.close('}');
}

void write_chat_logprobs(JsonText& json, std::span<const TokenRow> rows, const TokenNames& names,
                         std::span<const std::int32_t> before, std::size_t top) {
  json.open('{').key("content").open('[');
  Names words(names, before);
  for (const TokenRow& row : rows) {
    std::vector<Entry> entries = entries_of(row, row.top_ids.size());
    json.open('{');
    write_chat_token(json, words.of(row.id), entries.front().logprob);
    json.key("top_logprobs").open('[');
    entries.resize(std::min(entries.size(), top));
    for (const Entry& entry : entries) {
      json.open('{');
      write_chat_token(json, words.of(entry.id), entry.logprob);
      json.close('}');
    }
    json.close(']').close('}');
    words.pass(row.id);
  }
  json.close(']').close('}');
}

void write_prompt_logprobs(JsonText& json, std::span<const TokenRow> rows, const TokenNames& names,
                           std::size_t top) {
  json.open('[');
  Names words(names, {});
  for (const TokenRow& row : rows) {
    if (!row.has_value) {
      json.null();
    } else {
      json.open('{');
      for (const Entry& entry : entries_of(row, top)) {
        json.key(fmt::format("{}", entry.id)).open('{');
        json.key("logprob").number(entry.logprob).key("rank").integer(entry.rank);
        json.key("decoded_token").text(words.of(entry.id)).close('}');
      }
      json.close('}');
    }
    words.pass(row.id);
  }
  json.close(']');
}

}  // namespace routeopd::serve
