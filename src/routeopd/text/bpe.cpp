//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/bpe.h"

#include <algorithm>
#include <utility>

#include "routeopd/formats/json_file.h"
#include "routeopd/text/byte_level.h"

namespace routeopd::text {
namespace {

constexpr double kMaxId = (1 << 24) - 1;  // the rows that a model's embedding may have (formats/model_config)

// The two sides of a merge: ["a", "b"], or "a b" in older files.
std::pair<std::string_view, std::string_view> sides_of(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  throw UserError("expected [\"a\", \"b\"] or \"a b\", got {}", merge.dump());
}

// Orders a heap: the candidate of lowest rank on top, the leftmost among equals.
bool goes_later(const Bpe::Scratch::Candidate& left, const Bpe::Scratch::Candidate& right) {
  return std::pair(left.rank, left.place) > std::pair(right.rank, right.place);
}

}  // namespace

Bpe::Bpe(const Json& model) {
  if (!model.is_object()) throw UserError("expected an object, got {}", model.type_name());
  const Json& type = formats::value_or_null(model, "type");
  if (type != "BPE") throw UserError("type: expected BPE, the only one supported, got {}", shown(type));
  formats::expect_only(model, "dropout", 0.0);
  formats::expect_only(model, "continuing_subword_prefix", "");
  formats::expect_only(model, "end_of_word_suffix", "");
  formats::expect_only(model, "byte_fallback", false);
  formats::expect_none(model, "unk_token");  // and without one, fuse_unk has nothing to fuse
  ignore_merges_ = formats::flag_or(model, "ignore_merges", false);
  formats::naming("vocab", [&] { read_vocabulary(formats::value_or_null(model, "vocab")); });
  formats::naming("merges", [&] { read_merges(formats::value_or_null(model, "merges")); });
  for (std::size_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = id_of(byte_symbols()[byte]);
}

void Bpe::read_vocabulary(const Json& vocabulary) {
  if (!vocabulary.is_object()) throw UserError("expected an object, got {}", vocabulary.type_name());
  ids_.reserve(vocabulary.size());
  tokens_.reserve(vocabulary.size());
  for (const auto& [token, value] : vocabulary.items()) {
    const std::int32_t id = formats::naming(
        token, [&value] { return static_cast<std::int32_t>(number_in(value, {0, kMaxId}, true)); });
    const auto entry = ids_.emplace(token, id).first;
    if (const auto [other, fresh] = tokens_.emplace(id, &entry->first); !fresh)
      throw UserError("expected each id once, got {} for both {} and {}", id, *other->second, token);
    largest_id_ = std::max(largest_id_, id);
  }
}

void Bpe::read_merges(const Json& merges) {
  if (!merges.is_array()) throw UserError("expected a list, got {}", merges.type_name());
  merges_.reserve(merges.size());
  std::int32_t rank = 0;
  std::string joined;
  for (const Json& merge : merges) {
    // A line of the merges.txt that old files were made from.
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = sides_of(merge);
    joined.assign(left).append(right);
    const std::int32_t left_id = id_of(left);
    const std::int32_t right_id = id_of(right);
    const std::int32_t id = id_of(joined);
    if (left_id < 0 || right_id < 0 || id < 0)
      throw UserError("expected tokens of the vocabulary, got {}, which with its two sides is not",
                      merge.dump());
    const std::uint64_t pair =
        static_cast<std::uint64_t>(left_id) << 32U | static_cast<std::uint32_t>(right_id);
    merges_.insert_or_assign(pair, Merge{rank++, id});  // of a pair listed twice, the last counts
  }
}

const Bpe::Merge* Bpe::merge_of(std::int32_t left, std::int32_t right) const {
  const auto found =
      merges_.find(static_cast<std::uint64_t>(left) << 32U | static_cast<std::uint32_t>(right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::append_ids(std::string_view word, std::vector<std::int32_t>& ids, Scratch& scratch) const {
  if (ignore_merges_) {
    if (const std::int32_t whole = id_of(spelled(word)); whole >= 0) {
      ids.push_back(whole);
      return;
    }
  }
  scratch.symbols.clear();
  for (const char byte : word) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    const auto place = static_cast<std::int32_t>(scratch.symbols.size());
    if (id >= 0) scratch.symbols.push_back({id, place - 1, place + 1, false});
  }
  if (scratch.symbols.empty()) return;
  scratch.symbols.back().next = -1;
  merge_all(scratch);
  for (const Scratch::Symbol& symbol : scratch.symbols) {
    if (!symbol.gone) ids.push_back(symbol.id);
  }
}

void Bpe::merge_all(Scratch& scratch) const {
  auto& [symbols, queue] = scratch;
  queue.clear();
  const auto at = [&](std::int32_t place) -> Scratch::Symbol& {
    return symbols[static_cast<std::size_t>(place)];
  };
  const auto offer = [&](std::int32_t place) {  // the pair that begins there, if it is one
    if (place < 0 || at(place).next < 0) return false;
    const Merge* merge = merge_of(at(place).id, at(at(place).next).id);
    if (merge != nullptr) queue.push_back({merge->rank, place, merge->id});
    return merge != nullptr;
  };
  const auto count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t place = 0; place < count; ++place) offer(place);
  std::make_heap(queue.begin(), queue.end(), goes_later);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), goes_later);
    const Scratch::Candidate best = queue.back();
    queue.pop_back();
    Scratch::Symbol& left = at(best.place);
    if (left.gone || left.next < 0) continue;
    Scratch::Symbol& right = at(left.next);
    // An offer is out of date when either side has become another symbol since.
    const Merge* merge = merge_of(left.id, right.id);
    if (merge == nullptr || merge->id != best.id) continue;
    left.id = best.id;
    left.next = right.next;
    right.gone = true;
    if (right.next >= 0) at(right.next).previous = best.place;
    if (offer(left.previous)) std::push_heap(queue.begin(), queue.end(), goes_later);
    if (offer(best.place)) std::push_heap(queue.begin(), queue.end(), goes_later);
  }
}

std::int32_t Bpe::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

const std::string* Bpe::token_of(std::int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : found->second;
}

}  // namespace routeopd::text
