// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/chat_template_files.h"

#include <algorithm>
#include <array>

#include "routeopd/base/error.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/declared_tokens.h"

namespace routeopd::text {
namespace {

namespace fs = std::filesystem;
using Sources = std::vector<std::pair<std::string, std::string>>;

constexpr std::int64_t kMaxConfig = 64LL << 20U;  // added_tokens_decoder may list every token
constexpr std::int64_t kMaxTemplate = 4LL << 20U;

Sources template_files(const fs::path& directory) {
  Sources sources;
  const fs::path single = directory / "chat_template.jinja";
  if (fs::is_regular_file(single))
    sources.emplace_back("default", formats::read_text_file(single, kMaxTemplate));
  const fs::path folder = directory / "additional_chat_templates";
  if (!fs::is_directory(folder)) return sources;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".jinja") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    const std::string name = path.stem().string();
    std::erase_if(sources, [&](const auto& each) { return each.first == name; });
    sources.emplace_back(name, formats::read_text_file(path, kMaxTemplate));
  }
  return sources;
}

std::string text_of(const Json& value, const char* what) {
  if (!value.is_string()) throw UserError("chat_template: expected {}, got {}", what, value.type_name());
  return value.get<std::string>();
}

Sources templates_in(const Json& config) {
  const Json& value = formats::value_or_null(config, "chat_template");
  Sources sources;
  if (value.is_null()) return sources;
  if (value.is_string()) return {{"default", value.get<std::string>()}};
  if (value.is_object()) {
    for (const auto& [name, source] : value.items())
      sources.emplace_back(name, text_of(source, "a template's text"));
    return sources;
  }
  if (!value.is_array())
    throw UserError("chat_template: expected a text or a list, got {}", value.type_name());
  for (const Json& each : value) {
    if (!each.is_object())
      throw UserError("chat_template: expected objects in the list, got {}", each.type_name());
    const std::string name = text_of(formats::value_or_null(each, "name"), "a name");
    std::erase_if(sources, [&](const auto& other) { return other.first == name; });
    sources.emplace_back(name, text_of(formats::value_or_null(each, "template"), "a template's text"));
  }
  return sources;
}

}  // namespace

ChatTemplates::ChatTemplates(const Sources& sources, const OrderedJson& variables) {
  for (const auto& [name, source] : sources) {
    Named& made = templates_.emplace_back(Named{name, source, std::nullopt, ""});
    try {
      made.parsed.emplace(source, variables);
    } catch (const UserError& error) {
      made.error = error.what();
    }
  }
  if (templates_.size() == 1 && !templates_.front().parsed) throw UserError(templates_.front().error);
}

std::vector<std::string> ChatTemplates::names() const {
  std::vector<std::string> names;
  for (const Named& each : templates_) names.push_back(each.name);
  return names;
}

const std::string& ChatTemplates::source(const std::string& name) const {
  const auto found = std::find_if(templates_.begin(), templates_.end(),
                                  [&](const Named& each) { return each.name == name; });
  ROUTEOPD_INVARIANT(found != templates_.end());
  return found->source;
}

const ChatTemplate& ChatTemplates::chosen(const OrderedJson& options) const {
  const auto named = [&](std::string_view name) {
    return std::find_if(templates_.begin(), templates_.end(),
                        [&](const Named& each) { return each.name == name; });
  };
  const auto option = options.find("chat_template");
  const auto tools = options.find("tools");
  auto found = templates_.end();
  if (option != options.end() && !option->is_null()) {
    if (option->is_string()) found = named(option->get_ref<const std::string&>());
  } else {
    if (tools != options.end() && !tools->is_null()) found = named("tool_use");
    if (found == templates_.end()) found = named("default");
  }
  if (found == templates_.end()) {
    std::string known;
    for (const Named& each : templates_) known += (known.empty() ? "" : ", ") + each.name;
    throw UserError("chat_template: expected the name of one of the model's templates ({})", known);
  }
  if (!found->parsed) throw UserError(found->error);
  return *found->parsed;
}

std::string ChatTemplates::render(const OrderedJson& messages, const OrderedJson& options) const {
  if (!options.is_object())
    throw UserError("template options: expected an object, got {}", options.type_name());
  const ChatTemplate& meant = chosen(options);
  if (!options.contains("chat_template")) return meant.render(messages, options);
  OrderedJson others = options;
  others.erase("chat_template");
  return meant.render(messages, others);
}

std::optional<ChatTemplates> read_chat_templates(const fs::path& directory) {
  const fs::path config_path = directory / "tokenizer_config.json";
  const Json config =
      fs::is_regular_file(config_path) ? formats::read_json_object(config_path, kMaxConfig) : Json::object();
  Sources sources = template_files(directory);
  if (sources.empty()) sources = formats::naming(config_path.string(), [&] { return templates_in(config); });
  if (sources.empty()) return std::nullopt;
  const OrderedJson variables = tokenizer::read_special_tokens(directory);
  return formats::naming(directory.string(), [&] { return ChatTemplates(sources, variables); });
}

std::string render_chat(const ChatTemplates& templates, const OrderedJson& line, OrderedJson defaults) {
  const auto messages = line.find("messages");
  if (messages == line.end() || !messages->is_array())
    throw UserError("messages: expected a list of {{\"role\", \"content\"}}, got {}",
                    messages == line.end() ? "none" : messages->type_name());
  for (const char* option :
       {"add_generation_prompt", "continue_final_message", "enable_thinking", "documents"}) {
    if (line.contains(option))
      throw UserError("{}: expected it inside \"template\": {{…}}, got it beside the messages", option);
  }
  if (const auto tools = line.find("tools"); tools != line.end()) defaults["tools"] = *tools;
  if (const auto options = line.find("template"); options != line.end() && !options->is_null()) {
    if (!options->is_object())
      throw UserError("template: expected an object of options, got {}", options->type_name());
    defaults.update(*options);
  }
  return templates.render(*messages, defaults);
}

}  // namespace routeopd::text
