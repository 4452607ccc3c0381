//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/pre_tokenizer.h"

#include "routeopd/formats/json_file.h"

namespace routeopd::text {
namespace {

constexpr std::size_t kMaxPatterns = 16;
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The component's type, "none" where there is none.
std::string type_of(const Json& component) {
  if (component.is_null()) return "none";
  if (!component.is_object()) throw UserError("expected an object, got {}", component.type_name());
  return shown(formats::value_or_null(component, "type"));
}

}  // namespace

PreTokenizer::PreTokenizer(const Json& component) {
  const std::string type = type_of(component);
  if (type == "ByteLevel") {
    set_byte_level(component);
    return;
  }
  if (type != "Sequence")
    throw UserError("expected ByteLevel or a Sequence of Split and ByteLevel, got {}", type);
  const Json& parts = formats::value_or_null(component, "pretokenizers");
  if (!parts.is_array() || parts.empty())
    throw UserError("pretokenizers: expected a list, got {}", shown(parts));
  if (parts.size() > kMaxPatterns)
    throw UserError("pretokenizers: expected at most {}, got {}", kMaxPatterns, parts.size());
  for (const Json& part : parts) {
    const bool last = &part == &parts.back();
    const std::string part_type = type_of(part);
    if (part_type != (last ? "ByteLevel" : "Split"))
      throw UserError("pretokenizers: expected Split patterns and ByteLevel behind them, got {}", part_type);
    formats::naming(part_type, [&] { last ? set_byte_level(part) : add_split(part); });
  }
}

void PreTokenizer::add_split(const Json& component) {
  for (const char* key : {"behavior", "invert"}) {
    if (formats::value_or_null(component, key).is_null()) throw UserError("expected {}, got none", key);
  }
  formats::expect_only(component, "behavior", "Isolated");
  formats::expect_only(component, "invert", false);
  const Json& pattern = formats::value_or_null(component, "pattern");
  const Json& regex = pattern.is_object() ? formats::value_or_null(pattern, "Regex") : pattern;
  if (!pattern.is_object() || !regex.is_string())
    throw UserError("pattern: expected {{\"Regex\": …}}, the only one supported, got {}", pattern.dump());
  formats::naming("pattern", [&] { patterns_.emplace_back(regex.get_ref<const std::string&>()); });
}

void PreTokenizer::set_byte_level(const Json& component) {
  add_prefix_space_ = formats::flag_or(component, "add_prefix_space", true);
  if (formats::flag_or(component, "use_regex", true)) last_pattern_.emplace(kGpt2Pattern);
}

}  // namespace routeopd::text
