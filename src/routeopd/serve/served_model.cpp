// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/served_model.h"

#include <array>
#include <utility>

#include "routeopd/base/fields.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::serve {

GenerationDefaults read_generation_defaults(const std::filesystem::path& directory) {
  constexpr std::int64_t kMaxGenerationConfig = 1LL << 20U;
  constexpr double kMostTokens = 1LL << 24U;
  GenerationDefaults defaults;
  const std::filesystem::path path = directory / "generation_config.json";
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return defaults;
  const Json file = formats::read_json_object(path, kMaxGenerationConfig);
  const auto number = [&](const char* name, const Range& range, bool whole) -> std::optional<double> {
    const Json& value = formats::value_or_null(file, name);
    if (value.is_null()) return std::nullopt;
    return formats::naming(
        path.string(), [&] { return formats::naming(name, [&] { return number_in(value, range, whole); }); });
  };
  if (const auto value = number("temperature", {0, 2}, false)) defaults.decoding.temperature = *value;
  if (const auto value = number("top_p", {0, 1, /*low_open=*/true}, false)) defaults.decoding.top_p = *value;
  if (const auto value = number("top_k", {0, kMostTokens}, true))
    defaults.decoding.top_k = static_cast<std::int32_t>(*value);
  if (const auto value = number("max_new_tokens", {1, kMostTokens}, true))
    defaults.max_new_tokens = static_cast<std::int64_t>(*value);
  const std::array<std::pair<const char*, double>, 4> others = {
      {{"repetition_penalty", 1}, {"presence_penalty", 0}, {"frequency_penalty", 0}, {"min_p", 0}}};
  for (const auto& [name, neutral] : others) {
    const Json& value = formats::value_or_null(file, name);
    if (!value.is_null() && value != neutral) defaults.ignored.emplace_back(name);
  }
  return defaults;
}

}  // namespace routeopd::serve
