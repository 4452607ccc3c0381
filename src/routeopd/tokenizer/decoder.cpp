// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/decoder.h"

#include <utility>

#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/decode_stages.h"
#include "routeopd/tokenizer/tokenizer_file.h"

namespace routeopd::tokenizer {
namespace {

constexpr double kMaxStrip = 1024;
constexpr std::size_t kMaxDecodeGrowth = 64;  // factor, of all Replace steps together

std::size_t count_of(const Json& component, const char* key) {
  return formats::naming(key, [&] {
    return static_cast<std::size_t>(number_in(formats::value_or_null(component, key), {0, kMaxStrip}, true));
  });
}

std::string pattern_of(const Json& component) {
  const Json& pattern = formats::value_or_null(component, "pattern");
  const Json& words = pattern.is_object() ? formats::value_or_null(pattern, "String") : pattern;
  if (!pattern.is_object() || !words.is_string() || words.get_ref<const std::string&>().empty())
    throw UserError("pattern: expected {{\"String\": …}} that is not empty, got {}", pattern.dump());
  return short_string(pattern, "String");
}

// As in the pre-tokenizer: without a scheme, add_prefix_space = false means never.
bool drops_first(const Json& component) {
  const Json& scheme = formats::value_or_null(component, "prepend_scheme");
  if (scheme.is_null()) return formats::flag_or(component, "add_prefix_space", true);
  static const Choices<bool> choices = {{"always", true}, {"first", true}, {"never", false}};
  return formats::naming("prepend_scheme", [&] { return choice_of(scheme, choices); });
}

}  // namespace

Decoder::Decoder(const Json& component) {
  if (component.is_null()) {
    steps_.emplace_back(Spaced{});
  } else {
    read(component);
  }
}

void Decoder::read(const Json& component) {
  const std::string type = component_type(component);
  if (type == "Sequence") {
    for (const Json& part : component_list(component, "decoders")) read(part);
    return;
  }
  if (steps_.size() >= kMaxSteps) throw UserError("expected at most {} steps, got more", kMaxSteps);
  formats::naming(type, [&] {
    if (type == "ByteLevel") {
      steps_.emplace_back(ByteLevel{});
    } else if (type == "ByteFallback") {
      steps_.emplace_back(ByteFallback{});
    } else if (type == "Fuse") {
      steps_.emplace_back(Fuse{});
    } else if (type == "Strip") {
      steps_.emplace_back(Strip{one_character(component, "content"), count_of(component, "start"),
                                count_of(component, "stop")});
    } else if (type == "Replace") {
      Replace replace{pattern_of(component), short_string(component, "content")};
      growth_ *=
          std::max<std::size_t>(1, replace.content.size() / std::max<std::size_t>(1, replace.pattern.size()));
      if (growth_ > kMaxDecodeGrowth)
        throw UserError("expected replacements that make a text at most {} times as long, got {}",
                        kMaxDecodeGrowth, growth_);
      steps_.emplace_back(std::move(replace));
    } else if (type == "Metaspace") {
      steps_.emplace_back(Metaspace{one_character(component, "replacement"), drops_first(component)});
    } else {
      throw UserError(
          "expected ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace or a Sequence of them, got {}",
          type);
    }
  });
}

Decoder::Run::Run(const Decoder& decoder) : ready_(std::make_unique<std::string>()) {
  stages_.push_back(make_collector(*ready_));
  for (auto step = decoder.steps_.rbegin(); step != decoder.steps_.rend(); ++step)
    stages_.push_back(make_stage(*step, stages_.back().get()));
}

Decoder::Run::~Run() = default;
Decoder::Run::Run(Run&&) noexcept = default;
Decoder::Run& Decoder::Run::operator=(Run&&) noexcept = default;

void Decoder::Run::add(std::string_view token, std::string& text) {
  DecodeStage& first = *stages_.back();
  first.begin();
  first.text(token);
  first.end();
  text += *ready_;
  ready_->clear();
}

void Decoder::Run::finish(std::string& text) {
  stages_.back()->finish();
  text += *ready_;
  ready_->clear();
}

}  // namespace routeopd::tokenizer
