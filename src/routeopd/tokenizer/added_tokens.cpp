// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/tokenizer_file.h"
#include "routeopd/tokenizer/unicode.h"

namespace routeopd::tokenizer {
namespace {

constexpr std::size_t kMaxContent = 1024;  // a search takes at most this many steps per byte

AddedToken token_of(const Json& entry) {
  if (!entry.is_object()) throw UserError("expected an object, got {}", entry.type_name());
  AddedToken token;
  const Json& content = formats::value_or_null(entry, "content");
  if (!content.is_string() || content.get_ref<const std::string&>().empty() ||
      content.get_ref<const std::string&>().size() > kMaxContent)
    throw UserError("content: expected a string of 1 to {} bytes, got {}", kMaxContent, shown(content));
  token.content = content.get<std::string>();
  formats::naming(token.content, [&] {
    token.single_word = flag_of(entry, "single_word");
    token.lstrip = flag_of(entry, "lstrip");
    token.rstrip = flag_of(entry, "rstrip");
    token.normalized = flag_of(entry, "normalized");
    token.special = flag_of(entry, "special");
  });
  return token;
}

// The position of the character before `at`.
std::size_t before(std::string_view text, std::size_t at) {
  do {
    --at;
  } while ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80);
  return at;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const std::uint8_t* classes = char_classes();
  const bool word_before = begin > 0 && (classes_at(classes, text, before(text, begin)) & kWordChar) != 0;
  const bool word_after = end < text.size() && (classes_at(classes, text, end) & kWordChar) != 0;
  return !word_before && !word_after;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const Json& list, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) throw UserError("expected a list, got {}", list.type_name());
  std::unordered_set<std::string> contents;
  auto next_id = static_cast<std::int32_t>(vocabulary.size());
  for (const Json& entry : list) {
    AddedToken token = token_of(entry);
    if (!contents.insert(token.content).second)
      throw UserError("expected each token once, got {} twice", token.content);
    token.id = vocabulary.id_of(token.content);
    // As `tokenizers` numbers them: from the vocabulary's size, or from the largest id of an earlier added
    // token.
    if (token.id < 0) token.id = next_id;
    next_id = std::max(next_id, token.id + 1);
    if (vocabulary.has(token.id) && vocabulary.token_of(token.id) != token.content)
      throw UserError("{}: expected an id of its own, got {}, which is {}'s", token.content, token.id,
                      vocabulary.token_of(token.id));
    const Json& id = formats::value_or_null(entry, "id");
    if (id != token.id)
      throw UserError("{}: id: expected {}, as `tokenizers` counts, got {}", token.content, token.id,
                      shown(id));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void TokenCutter::add(std::string_view spelling, const AddedToken& token) {
  std::int32_t node = 0;
  for (const char byte : spelling) {
    std::int32_t child = child_of(node, byte);
    if (child < 0) {
      child = static_cast<std::int32_t>(token_of_node_.size());
      token_of_node_.push_back(-1);
      const auto index = static_cast<unsigned char>(byte);
      if (node == 0) {
        children_of_root_[index] = child;
        beginnings_ += byte;
      } else {
        children_.emplace(static_cast<std::uint64_t>(node) << 8U | index, child);
      }
    }
    node = child;
  }
  std::int32_t& place = token_of_node_[static_cast<std::size_t>(node)];
  if (place >= 0) return;
  place = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
}

std::int32_t TokenCutter::child_of(std::int32_t node, char byte) const {
  const auto index = static_cast<unsigned char>(byte);
  if (node == 0) return children_of_root_[index];
  const auto found = children_.find(static_cast<std::uint64_t>(node) << 8U | index);
  return found == children_.end() ? -1 : found->second;
}

// The next position where a token could begin. In most files all tokens begin with the same byte, '<'.
std::size_t TokenCutter::next_beginning(std::string_view text, std::size_t from) const {
  if (beginnings_.empty()) return text.size();
  if (beginnings_.size() == 1) {
    const std::size_t found = text.find(beginnings_.front(), from);
    return std::min(found, text.size());
  }
  while (from < text.size() && children_of_root_[static_cast<unsigned char>(text[from])] < 0) ++from;
  return from;
}

TokenCutter::Found TokenCutter::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = next_beginning(text, from); begin < text.size();
       begin = next_beginning(text, begin + 1)) {
    std::size_t end = begin;
    std::int32_t longest = -1;
    std::int32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      node = child_of(node, text[at]);
      if (node < 0) break;
      if (token_of_node_[static_cast<std::size_t>(node)] < 0) continue;
      longest = token_of_node_[static_cast<std::size_t>(node)];
      end = at + 1;
    }
    if (longest >= 0) return {begin, end, &tokens_[static_cast<std::size_t>(longest)]};
  }
  return {text.size(), text.size(), nullptr};
}

// As `tokenizers` does: first all matches are found, none overlapping another, then each takes its white
// space. So a token inside another token's white space is still found, and plain text resumes after it.
void TokenCutter::cut(std::string_view text, std::vector<Piece>& pieces) const {
  const std::uint8_t* classes = char_classes();
  const auto is_space = [&](std::size_t at) { return (classes_at(classes, text, at) & kWhiteSpace) != 0; };
  std::size_t plain = 0;      // where the plain text begins that is not yet in `pieces`
  std::size_t space_end = 0;  // of the last white space scanned, so that none is scanned twice
  std::size_t next = 0;
  for (Found found = find(text, next); found.token != nullptr; found = find(text, next)) {
    auto [begin, end, token] = found;
    next = end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->lstrip) {
      while (begin > plain && is_space(before(text, begin))) begin = before(text, begin);
      begin = std::max(begin, plain);  // not into the white space of the previous token
    }
    if (token->rstrip) {
      if (end >= space_end) {
        space_end = end;
        while (space_end < text.size() && is_space(space_end)) space_end += utf8_length(text[space_end]);
      }
      end = space_end;
    }
    if (begin > plain) pieces.push_back({text.substr(plain, begin - plain), -1});
    if (begin < end) pieces.push_back({text.substr(begin, end - begin), token->id});
    plain = end;
  }
  if (plain < text.size()) pieces.push_back({text.substr(plain), -1});
}

}  // namespace routeopd::tokenizer
