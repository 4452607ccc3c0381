// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/declared_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "routeopd/formats/json_file.h"

namespace routeopd::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFile = 64LL << 20U;  // added_tokens_decoder may list every token

Json json_in(const fs::path& path) {
  return fs::is_regular_file(path) ? formats::read_json_object(path, kMaxFile) : Json::object();
}

bool is_standard(const std::string& name) {
  constexpr std::array<std::string_view, 7> kNames{"bos_token", "eos_token", "unk_token", "sep_token",
                                                   "pad_token", "cls_token", "mask_token"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// A token given as a text or as {"content": …}; nullopt for null.
std::optional<std::string> token_of(const std::string& name, const Json& value) {
  if (value.is_null()) return std::nullopt;
  const Json& content = value.is_object() ? formats::value_or_null(value, "content") : value;
  if (!content.is_string()) throw UserError("{}: expected a token's text, got {}", name, value.dump());
  return content.get<std::string>();
}

// In addition to the standard names, transformers passes others that end in _token, and those of
// extra_special_tokens.
OrderedJson special_tokens(Json config, const Json& map) {
  if (!config.contains("added_tokens_decoder")) {
    for (const auto& [name, value] : map.items()) {
      const bool is_list = name == "extra_special_tokens" && value.is_array();
      if (!is_list) config[name] = value;
    }
  }
  OrderedJson variables = OrderedJson::object();
  for (const auto& [name, value] : config.items()) {
    const bool is_own = name.ends_with("_token") && (value.is_string() || value.is_object());
    if (!is_standard(name) && !is_own) continue;
    if (const auto token = token_of(name, value)) variables[name] = *token;
  }
  const Json& extra = formats::value_or_null(config, "extra_special_tokens");
  if (extra.is_object()) {
    for (const auto& [name, value] : extra.items()) {
      if (const auto token = token_of(name, value)) variables[name] = *token;
    }
  }
  return variables;
}

std::string content_of(const Json& token) {
  const Json& content = token.is_object() ? formats::value_or_null(token, "content") : token;
  if (!content.is_string()) throw UserError("expected a token, got {}", token.dump());
  return content.get<std::string>();
}

class Declared {
 public:
  explicit Declared(const Tokenizer& tokenizer) {
    for (const AddedToken& token : tokenizer.added_tokens()) ids_.emplace(token.content, token.id);
  }

  // `id`: -1 where the declaration names none.
  void check(const std::string& content, std::int64_t id) const {
    const auto found = ids_.find(content);
    if (found == ids_.end())
      throw UserError(
          "expected an added token of tokenizer.json, got {}, which transformers would add; try "
          "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
          content);
    if (id >= 0 && found->second != id)
      throw UserError("expected {} to have id {} as in tokenizer.json, got {}", content, found->second, id);
  }

 private:
  std::unordered_map<std::string, std::int32_t> ids_;
};

void check_config(const Json& config, const Declared& declared) {
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const Json& list = formats::value_or_null(config, key);
    if (!list.is_array()) continue;
    for (const Json& token : list) formats::naming(key, [&] { declared.check(content_of(token), -1); });
  }
  const Json& decoder = formats::value_or_null(config, "added_tokens_decoder");
  if (!decoder.is_object()) return;
  for (const auto& entry : decoder.items()) {
    formats::naming("added_tokens_decoder", [&] {
      const std::string& key = entry.key();
      std::int64_t id = -1;
      if (std::from_chars(key.data(), key.data() + key.size(), id).ptr != key.data() + key.size() || id < 0)
        throw UserError("expected ids as keys, got {}", key);
      declared.check(content_of(entry.value()), id);
    });
  }
}

}  // namespace

OrderedJson read_special_tokens(const fs::path& directory) {
  const fs::path config_path = directory / "tokenizer_config.json";
  const Json config = json_in(config_path), map = json_in(directory / "special_tokens_map.json");
  return formats::naming(config_path.string(), [&] { return special_tokens(config, map); });
}

void check_declared_tokens(const fs::path& directory, const Tokenizer& tokenizer) {
  const Declared declared(tokenizer);
  const fs::path config_path = directory / "tokenizer_config.json",
                 added_path = directory / "added_tokens.json";
  std::error_code ignored;
  const OrderedJson specials = read_special_tokens(directory);
  for (const auto& entry : specials.items()) {
    formats::naming(fmt::format("{}: {}", config_path.string(), entry.key()),
                    [&] { declared.check(entry.value().get<std::string>(), -1); });
  }
  if (fs::is_regular_file(config_path, ignored)) {
    const Json config = formats::read_json_object(config_path, kMaxFile);
    formats::naming(config_path.string(), [&] { check_config(config, declared); });
  }
  if (!fs::is_regular_file(added_path, ignored)) return;
  const Json added = formats::read_json_object(added_path, kMaxFile);
  for (const auto& entry : added.items()) {
    formats::naming(added_path.string(), [&] {
      declared.check(entry.key(),
                     static_cast<std::int64_t>(number_in(entry.value(), {0, (1 << 24) - 1}, true)));
    });
  }
}

}  // namespace routeopd::tokenizer
