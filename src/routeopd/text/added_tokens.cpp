//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/added_tokens.h"

#include <algorithm>
#include <cstddef>
#include <unordered_set>

#include "routeopd/formats/json_file.h"

namespace routeopd::text {
namespace {

constexpr std::size_t kMaxContent = 1024;  // a search for tokens takes at most this many steps a byte

bool flag_of(const Json& token, const char* key) {
  if (formats::value_or_null(token, key).is_null()) throw UserError("expected {}, got none", key);
  return formats::flag_or(token, key, false);
}

AddedToken token_of(const Json& entry) {
  if (!entry.is_object()) throw UserError("expected an object, got {}", entry.type_name());
  AddedToken token;
  const Json& content = formats::value_or_null(entry, "content");
  if (!content.is_string() || content.get_ref<const std::string&>().empty() ||
      content.get_ref<const std::string&>().size() > kMaxContent)
    throw UserError("content: expected a string of 1 to {} bytes, got {}", kMaxContent, shown(content));
  token.content = content.get<std::string>();
  formats::naming(token.content, [&] {
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      flag_of(entry, key);
      formats::expect_only(entry, key, false);
    }
    token.special = flag_of(entry, "special");
    token.normalized = flag_of(entry, "normalized");
  });
  return token;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const Json& list, const Bpe& bpe) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) throw UserError("expected a list, got {}", list.type_name());
  std::unordered_set<std::string> contents;
  auto next_id = static_cast<std::int32_t>(bpe.size());
  for (const Json& entry : list) {
    AddedToken token = token_of(entry);
    if (!contents.insert(token.content).second)
      throw UserError("expected each token once, got {} twice", token.content);
    token.id = bpe.id_of(token.content);
    // The library's count: on from the vocabulary's size, or from the largest id of an added token before.
    if (token.id < 0) token.id = next_id;
    next_id = std::max(next_id, token.id + 1);
    if (bpe.token_of(token.id) != nullptr && *bpe.token_of(token.id) != token.content)
      throw UserError("{}: expected an id of its own, got {}, which is {}'s", token.content, token.id,
                      *bpe.token_of(token.id));
    const Json& id = formats::value_or_null(entry, "id");
    if (id != token.id)
      throw UserError("{}: id: expected {}, as `tokenizers` counts, got {}", token.content, token.id,
                      shown(id));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void TokenCutter::add(std::string_view content, std::int32_t id) {
  std::int32_t node = 0;
  for (const char byte : content) {
    std::int32_t child = child_of(node, byte);
    if (child < 0) {
      child = static_cast<std::int32_t>(id_of_node_.size());
      id_of_node_.push_back(-1);
      const auto index = static_cast<unsigned char>(byte);
      if (node == 0) {
        children_of_root_[index] = child;
      } else {
        children_.emplace(static_cast<std::uint64_t>(node) << 8U | index, child);
      }
    }
    node = child;
  }
  id_of_node_[static_cast<std::size_t>(node)] = id;
}

std::int32_t TokenCutter::child_of(std::int32_t node, char byte) const {
  const auto index = static_cast<unsigned char>(byte);
  if (node == 0) return children_of_root_[index];
  const auto found = children_.find(static_cast<std::uint64_t>(node) << 8U | index);
  return found == children_.end() ? -1 : found->second;
}

void TokenCutter::cut(std::string_view text, std::vector<Piece>& pieces) const {
  std::size_t plain = 0;  // where the plain text not yet given out begins
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t longest = 0;
    std::int32_t id = -1;
    std::int32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      node = child_of(node, text[at]);
      if (node < 0) break;
      if (id_of_node_[static_cast<std::size_t>(node)] < 0) continue;
      id = id_of_node_[static_cast<std::size_t>(node)];
      longest = at + 1 - begin;
    }
    if (id < 0) {
      ++begin;
      continue;
    }
    if (begin > plain) pieces.push_back({text.substr(plain, begin - plain), -1});
    pieces.push_back({text.substr(begin, longest), id});
    begin += longest;
    plain = begin;
  }
  if (plain < text.size()) pieces.push_back({text.substr(plain), -1});
}

}  // namespace routeopd::text
