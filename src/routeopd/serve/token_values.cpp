// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/token_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "routeopd/base/utf8.h"
#include "routeopd/serve/answer_json.h"

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

// A float as the double that equals it. JSON has no infinities: as vLLM does, they and NaN become -9999.
double finite(float value) {
  return std::isfinite(value) ? static_cast<double>(value) : -9999.0;
}

// {name: value}. Ids that read the same share a key, which keeps the larger value.
OrderedJson named_values(const std::vector<Entry>& entries, const Names& names) {
  OrderedJson values = room_for(entries.size());
  for (const Entry& entry : entries) {
    const double value = finite(entry.logprob);
    const auto [place, is_new] = values.emplace(names.of(entry.id), value);
    if (!is_new && *place < value) *place = value;
  }
  return values;
}

OrderedJson chat_token(const std::string& name, float logprob) {
  OrderedJson token = room_for(4);
  token["token"] = name;
  token["logprob"] = finite(logprob);
  token["bytes"] = std::vector<unsigned char>(name.begin(), name.end());
  return token;
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

OrderedJson completion_logprobs(std::span<const TokenRow> rows, const TokenNames& names,
                                std::span<const std::int32_t> before, std::size_t top, std::int64_t offset) {
  OrderedJson all = room_for(4);
  for (const char* list : {"text_offset", "token_logprobs", "tokens", "top_logprobs"})
    all[list] = OrderedJson::array();
  OrderedJson &offsets = all["text_offset"], &values = all["token_logprobs"], &tokens = all["tokens"],
              &tops = all["top_logprobs"];
  Names words(names, before);
  for (const TokenRow& row : rows) {
    const std::string name = words.of(row.id);
    offsets.push_back(offset);
    offset += count_code_points(name);
    tokens.push_back(name);
    if (row.has_value) {
      const std::vector<Entry> entries = entries_of(row, top);
      values.push_back(finite(entries.front().logprob));
      tops.push_back(named_values(entries, words));
    } else {
      values.push_back(nullptr);
      tops.push_back(nullptr);
    }
    words.pass(row.id);
  }
  return all;
}

OrderedJson chat_logprobs(std::span<const TokenRow> rows, const TokenNames& names,
                          std::span<const std::int32_t> before, std::size_t top) {
  OrderedJson all;
  OrderedJson& content = all["content"] = OrderedJson::array();
  Names words(names, before);
  for (const TokenRow& row : rows) {
    std::vector<Entry> entries = entries_of(row, row.top_ids.size());
    OrderedJson token = chat_token(words.of(row.id), entries.front().logprob);
    OrderedJson& tops = token["top_logprobs"] = OrderedJson::array();
    entries.resize(std::min(entries.size(), top));
    for (const Entry& entry : entries) tops.push_back(chat_token(words.of(entry.id), entry.logprob));
    content.push_back(std::move(token));
    words.pass(row.id);
  }
  return all;
}

OrderedJson prompt_logprobs(std::span<const TokenRow> rows, const TokenNames& names, std::size_t top) {
  OrderedJson all = OrderedJson::array();
  Names words(names, {});
  for (const TokenRow& row : rows) {
    OrderedJson values;
    if (row.has_value) {
      const std::vector<Entry> entries = entries_of(row, top);
      values = room_for(entries.size());
      for (const Entry& entry : entries) {
        OrderedJson& value = values[std::to_string(entry.id)] = room_for(3);
        value["logprob"] = finite(entry.logprob);
        value["rank"] = entry.rank;
        value["decoded_token"] = words.of(entry.id);
      }
    }
    all.push_back(std::move(values));
    words.pass(row.id);
  }
  return all;
}

}  // namespace routeopd::serve
