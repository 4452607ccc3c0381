//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/declared_tokens.h"

#include <charconv>
#include <unordered_map>

#include "routeopd/formats/json_file.h"
#include "routeopd/text/chat_template_files.h"

namespace routeopd::text {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFile = 64LL << 20U;

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

}  // namespace routeopd::text
