// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/normalizer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/tokenizer_file.h"
#include "routeopd/tokenizer/unicode.h"

namespace routeopd::tokenizer {
namespace {

// Replacing every letter could turn a megabyte into a gigabyte: text may grow 16-fold, short text to 64 kB.
constexpr std::size_t kMaxNormalGrowth = 16;
constexpr std::size_t kAlwaysAllowedBytes = 1U << 16U;

std::string_view without_space(std::string_view text, bool left, bool right) {
  const std::uint8_t* classes = char_classes();
  while (left && !text.empty() && (classes_at(classes, text, 0) & kWhiteSpace) != 0)
    text.remove_prefix(utf8_length(text.front()));
  while (right && !text.empty()) {
    std::size_t last = text.size() - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xC0U) == 0x80) --last;
    if ((classes_at(classes, text, last) & kWhiteSpace) == 0) break;
    text = text.substr(0, last);
  }
  return text;
}

void replace(const SplitPattern& pattern, std::string_view content, std::string_view text, std::size_t most,
             std::string& result) {
  const auto append = [&](std::string_view piece) {
    result += piece;
    if (result.size() > most)
      throw UserError("normalizer: expected text that grows {}-fold at most, got {} bytes and more of {}",
                      kMaxNormalGrowth, most, text.size());
  };
  if (const std::string& words = pattern.plain_words(); !words.empty()) {  // the common case: no list of cuts
    std::size_t covered = 0;
    for (std::size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, covered)) {
      append(text.substr(covered, at - covered));
      append(content);
      covered = at + words.size();
    }
    append(text.substr(covered));
    return;
  }
  std::vector<Cut> cuts;
  pattern.cut(text, cuts);
  for (const Cut& cut : cuts) append(cut.match ? content : text.substr(cut.begin, cut.end - cut.begin));
}

}  // namespace

Normalizer::Normalizer(const Json& component) {
  if (!component.is_null()) read(component);
}

void Normalizer::read(const Json& component) {
  const std::string type = component_type(component);
  if (type == "Sequence") {
    for (const Json& part : component_list(component, "normalizers")) read(part);
    return;
  }
  if (steps_.size() == kMaxSteps) throw UserError("expected at most {} steps, got more", kMaxSteps);
  formats::naming(type, [&] {
    if (type == "NFC") {
      steps_.emplace_back(Nfc{});
    } else if (type == "Prepend") {
      steps_.emplace_back(Prepend{short_string(component, "prepend")});
    } else if (type == "Replace") {
      std::string content = short_string(component, "content");
      may_delete_ = may_delete_ || content.empty();
      steps_.emplace_back(Replace{
          formats::naming("pattern",
                          [&] { return SplitPattern::read(formats::value_or_null(component, "pattern")); }),
          std::move(content)});
    } else if (type == "Strip") {
      may_delete_ = true;
      steps_.emplace_back(Strip{flag_of(component, "strip_left"), flag_of(component, "strip_right")});
    } else {
      throw UserError("expected NFC, Prepend, Replace, Strip or a Sequence of them, got {}", type);
    }
  });
}

// Returns whether the step changed the text; `result` is then the new text.
bool Normalizer::apply(const Step& step, std::string_view text, std::string& result) {
  result.clear();
  if (std::holds_alternative<Nfc>(step)) {
    if (is_plainly_nfc(text)) return false;
    result = nfc(text);
  } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
    if (text.empty()) return false;
    result.append(prepend->words).append(text);
  } else if (const auto* strip = std::get_if<Strip>(&step)) {
    result = without_space(text, strip->left, strip->right);
  } else {
    const auto& [pattern, content] = std::get<Replace>(step);
    replace(pattern, content, text, std::max(kAlwaysAllowedBytes, kMaxNormalGrowth * text.size()), result);
  }
  return true;
}

std::string_view Normalizer::normalized(std::string_view text, std::string& storage) const {
  const std::size_t most = std::max(kAlwaysAllowedBytes, kMaxNormalGrowth * text.size());
  std::string result;
  for (const Step& step : steps_) {
    if (!apply(step, text, result)) continue;
    if (result.size() > most)
      throw UserError("normalizer: expected text that grows {}-fold at most, got {} bytes", kMaxNormalGrowth,
                      result.size());
    storage.swap(result);
    text = storage;
  }
  return text;
}

std::string Normalizer::description() const {
  for (const Step& step : steps_) {
    if (std::holds_alternative<Nfc>(step)) return "NFC";
  }
  return "";
}

}  // namespace routeopd::tokenizer
