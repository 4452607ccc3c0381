// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/tokenizer_file.h"

namespace routeopd::tokenizer {
namespace {

// Cuts out each character of a class as a match.
void cut_by_class(std::string_view text, CharClass kind, std::vector<Cut>& cuts) {
  const std::uint8_t* classes = char_classes();
  std::size_t covered = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = at + utf8_length(text[at]);
    if ((classes_at(classes, text, at) & kind) != 0) {
      if (at > covered) cuts.push_back({covered, at, false});
      cuts.push_back({at, next, true});
      covered = next;
    }
    at = next;
  }
  if (covered < text.size()) cuts.push_back({covered, text.size(), false});
}

// Runs of word characters and runs of others, separated by white space: \w+|[^\w\s]+.
void cut_by_whitespace(std::string_view text, std::vector<Cut>& cuts) {
  const std::uint8_t* classes = char_classes();
  const auto kind_at = [&](std::size_t at) {
    return classes_at(classes, text, at) & (kWordChar | kWhiteSpace);
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const int kind = kind_at(begin);
    while (at < text.size() && kind_at(at) == kind) at += utf8_length(text[at]);
    cuts.push_back({begin, at, (kind & kWhiteSpace) != 0});
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const Json& component) {
  if (component.is_null()) return;
  read(component);
  if (steps_.size() == 1) {
    const auto* split = std::get_if<Split>(&steps_.front());
    if (split != nullptr && split->behavior == Behavior::isolated) only_pattern_ = split->pattern.known();
  }
}

void PreTokenizer::read(const Json& component) {
  const std::string type = component_type(component);
  if (type == "Sequence") {
    for (const Json& part : component_list(component, "pretokenizers")) read(part);
    return;
  }
  if (byte_level_) throw UserError("expected ByteLevel as the last step, got {} after it", type);
  if (steps_.size() >= kMaxSteps) throw UserError("expected at most {} steps, got more", kMaxSteps);
  formats::naming(type, [&] {
    if (type == "ByteLevel") {
      read_byte_level(component);
    } else if (type == "Split") {
      steps_.emplace_back(Split{
          formats::naming("pattern",
                          [&] { return SplitPattern::read(formats::value_or_null(component, "pattern")); }),
          behavior_of(component), flag_of(component, "invert")});
    } else if (type == "Digits") {
      steps_.emplace_back(ClassSplit{
          kNumericChar, flag_of(component, "individual_digits") ? Behavior::isolated : Behavior::contiguous});
    } else if (type == "Punctuation") {
      const bool plain = formats::value_or_null(component, "behavior").is_null();
      steps_.emplace_back(ClassSplit{kPunctuationChar, plain ? Behavior::isolated : behavior_of(component)});
    } else if (type == "Whitespace") {
      steps_.emplace_back(Whitespace{});
    } else if (type == "WhitespaceSplit") {
      steps_.emplace_back(ClassSplit{kWhiteSpace, Behavior::removed});
    } else if (type == "Metaspace") {
      steps_.emplace_back(read_metaspace(component));
      heeds_first_ = heeds_first_ || std::get<Metaspace>(steps_.back()).prepend == Metaspace::Prepend::first;
    } else {
      throw UserError(
          "expected ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit or a "
          "Sequence, got {}",
          type);
    }
  });
}

void PreTokenizer::read_byte_level(const Json& component) {
  byte_level_ = true;
  if (formats::flag_or(component, "add_prefix_space", true)) steps_.emplace_back(PrefixSpace{});
  if (formats::flag_or(component, "use_regex", true))
    steps_.emplace_back(Split{SplitPattern::regex(kGpt2Pattern), Behavior::isolated, false});
}

PreTokenizer::Behavior PreTokenizer::behavior_of(const Json& component) {
  static const Choices<Behavior> choices = {{"Removed", Behavior::removed},
                                            {"Isolated", Behavior::isolated},
                                            {"MergedWithPrevious", Behavior::merged_with_previous},
                                            {"MergedWithNext", Behavior::merged_with_next},
                                            {"Contiguous", Behavior::contiguous}};
  return formats::naming("behavior",
                         [&] { return choice_of(formats::value_or_null(component, "behavior"), choices); });
}

// Older files have only add_prefix_space: true means always, false never.
PreTokenizer::Metaspace PreTokenizer::read_metaspace(const Json& component) {
  using Prepend = Metaspace::Prepend;
  static const Choices<Prepend> choices = {
      {"always", Prepend::always}, {"first", Prepend::first}, {"never", Prepend::never}};
  const bool prefix = formats::flag_or(component, "add_prefix_space", true);
  const Json& scheme = formats::value_or_null(component, "prepend_scheme");
  Prepend prepend = prefix ? Prepend::always : Prepend::never;
  if (!scheme.is_null())
    prepend = formats::naming("prepend_scheme", [&] { return choice_of(scheme, choices); });
  if (!prefix && prepend != Prepend::never)
    throw UserError("expected prepend_scheme never, as add_prefix_space is false, got {}", shown(scheme));
  return {one_character(component, "replacement"), prepend, formats::flag_or(component, "split", true)};
}

// Turns cuts into pieces as the behaviour says, and skips empty ones.
void PreTokenizer::gather(std::string_view text, bool first, Behavior behavior, bool invert,
                          std::vector<Cut>& cuts, std::vector<Piece>& pieces) {
  const bool backwards = behavior == Behavior::merged_with_next;
  if (backwards) std::reverse(cuts.begin(), cuts.end());
  bool previous_match = false;
  std::size_t kept = 0;
  for (const Cut cut : cuts) {
    const bool match = cut.match != invert;
    if (behavior == Behavior::removed && match) continue;
    const bool merges = behavior == Behavior::contiguous ? match == previous_match
                        : behavior == Behavior::merged_with_previous || behavior == Behavior::merged_with_next
                            ? match && !previous_match
                            : false;
    previous_match = match;
    if (!merges || kept == 0) {
      cuts[kept++] = cut;
    } else if (backwards) {
      cuts[kept - 1].begin = cut.begin;
    } else {
      cuts[kept - 1].end = cut.end;
    }
  }
  cuts.resize(kept);
  if (backwards) std::reverse(cuts.begin(), cuts.end());
  for (const Cut& cut : cuts) {
    if (cut.end > cut.begin)
      pieces.push_back({text.substr(cut.begin, cut.end - cut.begin), first && cut.begin == 0});
  }
}

void PreTokenizer::apply(const Step& step, const Piece& piece, std::deque<std::string>& storage,
                         std::vector<Piece>& pieces) {
  std::vector<Cut> cuts;
  if (const auto* split = std::get_if<Split>(&step)) {
    split->pattern.cut(piece.text, cuts);
    gather(piece.text, piece.first, split->behavior, split->invert, cuts, pieces);
  } else if (const auto* by_class = std::get_if<ClassSplit>(&step)) {
    cut_by_class(piece.text, by_class->kind, cuts);
    gather(piece.text, piece.first, by_class->behavior, false, cuts, pieces);
  } else if (std::holds_alternative<Whitespace>(step)) {
    cut_by_whitespace(piece.text, cuts);
    gather(piece.text, piece.first, Behavior::removed, false, cuts, pieces);
  } else if (std::holds_alternative<PrefixSpace>(step)) {
    const bool has_one = piece.text.front() == ' ';
    pieces.push_back({has_one ? piece.text : storage.emplace_back(" ").append(piece.text), piece.first});
  } else {
    const auto& metaspace = std::get<Metaspace>(step);
    std::string& text = storage.emplace_back();
    text.reserve(piece.text.size() + metaspace.replacement.size());
    const bool begins_with_one = piece.text.front() == ' ' || piece.text.starts_with(metaspace.replacement);
    if (!begins_with_one && (metaspace.prepend == Metaspace::Prepend::always ||
                             (metaspace.prepend == Metaspace::Prepend::first && piece.first)))
      text += metaspace.replacement;
    for (const char byte : piece.text) {
      if (byte == ' ') {
        text += metaspace.replacement;
      } else {
        text += byte;
      }
    }
    if (!metaspace.split) {
      pieces.push_back({text, piece.first});
      return;
    }
    SplitPattern::plain(metaspace.replacement).cut(text, cuts);
    gather(text, piece.first, Behavior::merged_with_next, false, cuts, pieces);
  }
}

std::vector<PreTokenizer::Piece> PreTokenizer::pieces_of(Piece whole,
                                                         std::deque<std::string>& storage) const {
  std::vector<Piece> pieces;
  if (!whole.text.empty()) pieces.push_back(whole);
  std::vector<Piece> next;
  for (const Step& step : steps_) {
    next.clear();
    for (const Piece& piece : pieces) apply(step, piece, storage, next);
    pieces.swap(next);
  }
  return pieces;
}

}  // namespace routeopd::tokenizer
