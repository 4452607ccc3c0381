// routeopd inspect: what a model directory holds, without reading its weights.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "routeopd/base/display.h"
#include "routeopd/base/hashes.h"
#include "routeopd/model/model_files.h"
#include "routeopd/table/text_table.h"
#include "routeopd/text/chat_template_files.h"
#include "routeopd/tokenizer/declared_tokens.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::app {
namespace {

namespace fs = std::filesystem;

struct InspectArguments {
  std::string directory;
  OutputFlags output;
};

Json model_facts(const fs::path& directory) {
  const formats::ModelConfig config = formats::read_model_config(directory);
  const formats::ArchitectureSpec& spec = config.architecture();
  const model::StoredWeights weights = model::describe_weights(directory);
  std::vector<std::string> biases;
  if (config.has(spec.qkv_bias)) biases.emplace_back("q, k, v");
  if (config.has(spec.output_bias)) biases.emplace_back("o");
  if (config.has(spec.mlp_bias)) biases.emplace_back("mlp");
  std::vector<std::string> norms;
  for (const auto& [name, place] : {std::pair(&spec.names.norm_before_attention, "before attention"),
                                    std::pair(&spec.names.norm_after_attention, "after attention"),
                                    std::pair(&spec.names.norm_before_mlp, "before feed-forward"),
                                    std::pair(&spec.names.norm_after_mlp, "after feed-forward")})
    if (!name->empty()) norms.emplace_back(place);
  const bool whole = spec.query_key_norm == formats::QueryKeyNorm::kWholeProjection;
  std::vector<std::string> files;
  for (const fs::path& file : weights.files) files.push_back(file.filename().string());
  return {{"model_type", config.model_type},
          {"parameters", weights.parameters},
          {"types", weights.types},
          {"bytes", weights.bytes},
          {"files", files},
          {"layers", config.num_hidden_layers},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"heads", config.num_attention_heads},
          {"kv_heads", config.num_key_value_heads},
          {"head_dim", config.head_dim},
          {"qk_norm", spec.query_key_norm != formats::QueryKeyNorm::kNone},
          {"qk_norm_over", whole ? "projection" : "head"},
          {"norms", norms},
          {"norm_offset", spec.norm_offset},
          {"activation", spec.activation_names.front()},
          {"embedding_scale", config.embedding_scale()},
          {"biases", biases},
          {"rope", formats::json_of(config.rope)},
          {"rms_norm_eps", config.rms_norm_eps},
          {"max_positions", config.max_position_embeddings},
          {"kv_bytes_per_token", 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim *
                                     std::int64_t{sizeof(float)}},
          {"embedding_rows", config.vocab_size},
          {"tied_head", config.tie_word_embeddings},
          {"eos_ids", config.eos_token_ids}};
}

Json tokenizer_facts(const fs::path& directory) {
  const tokenizer::Tokenizer tokenizer(directory);
  Json specials = Json::object();
  const OrderedJson named = tokenizer::read_special_tokens(directory);
  for (const auto& [name, token] : named.items())
    specials[name] = {{"token", token.get<std::string>()}, {"id", tokenizer.id_of(token.get<std::string>())}};
  return {{"description", tokenizer.description()},
          {"ids", tokenizer.real_ids()},
          {"added_tokens", tokenizer.added_tokens().size()},
          {"special_tokens", specials}};
}

Json template_facts(const text::ChatTemplates& templates) {
  Json facts = Json::object();
  for (const std::string& name : templates.names()) {
    const std::string& source = templates.source(name);
    facts[name] = {{"bytes", source.size()}, {"sha256", sha256(source)}};
  }
  return facts;
}

void print_facts(const Json& facts) {
  table::TextTable table({{"", table::Align::kLeft}, {"", table::Align::kLeft}});
  if (facts.contains("model")) {
    const Json& m = facts["model"];
    const auto number = [&](const char* key) { return grouped(m[key].get<std::int64_t>()); };
    std::string types;
    for (const auto& [type, count] : m["types"].items())
      types += (types.empty() ? "" : ", ") +
               (m["types"].size() == 1 ? type : grouped(count.get<std::int64_t>()) + " as " + type);
    table.add({"architecture", m["model_type"].get<std::string>()});
    table.add({"parameters", fmt::format("{} ({})", number("parameters"), types)});
    table.add({"weights", fmt::format("{} bytes in {} file{}", number("bytes"), m["files"].size(),
                                      m["files"].size() == 1 ? "" : "s")});
    table.add({"layers", fmt::format("{} of hidden size {}, feed-forward {} gated by {}", number("layers"),
                                     number("hidden_size"), number("intermediate_size"),
                                     m["activation"].get<std::string>())});
    table.add({"norms", fmt::format("{}{}", fmt::join(m["norms"].get<std::vector<std::string>>(), ", "),
                                    m["norm_offset"] == 0 ? "" : ", by 1 + weight")});
    std::string attention = fmt::format("{} query heads, {} key-value heads of {}", number("heads"),
                                        number("kv_heads"), number("head_dim"));
    if (m["qk_norm"].get<bool>())
      attention += m["qk_norm_over"] == "head" ? ", norms on q and k" : ", norms on whole q and k";
    if (!m["biases"].empty())
      attention +=
          fmt::format(", biases on {}", fmt::join(m["biases"].get<std::vector<std::string>>(), ", "));
    table.add({"attention", attention});
    table.add({"positions", fmt::format("{}, rope {}", number("max_positions"), m["rope"].dump())});
    table.add(
        {"key-value cache", fmt::format("{} bytes per token in float32", number("kv_bytes_per_token"))});
    table.add(
        {"embedding", fmt::format("{} rows{}, {}", number("embedding_rows"),
                                  m["embedding_scale"] == 1 ? "" : " times sqrt(hidden size)",
                                  m["tied_head"].get<bool>() ? "tied to the head" : "a head of its own")});
    table.add({"ends at", m["eos_ids"].empty()
                              ? "no id"
                              : fmt::format("id {}", fmt::join(m["eos_ids"].get<std::vector<int>>(), ", "))});
  }
  if (facts.contains("tokenizer")) {
    const Json& t = facts["tokenizer"];
    table.add({"tokenizer", t["description"].get<std::string>()});
    table.add({"ids", grouped(t["ids"].get<std::int64_t>())});
    for (const auto& [name, token] : t["special_tokens"].items())
      table.add({name, fmt::format("{} (id {})", token["token"].get<std::string>(), token["id"].get<int>())});
  }
  if (facts.contains("template")) {
    for (const auto& [name, its] : facts["template"].items())
      table.add(
          {"chat template", fmt::format("{}, {} bytes, sha256 {}", name, its["bytes"].get<std::int64_t>(),
                                        its["sha256"].get<std::string>().substr(0, 16))});
  }
  std::cout << table.text();
}

void run_inspect(const InspectArguments& arguments) {
  const fs::path directory = arguments.directory;
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored))
    throw UserError("{}: expected a directory; is the path right?", arguments.directory);
  Json facts = {{"path", arguments.directory}};
  if (fs::exists(directory / "config.json")) facts["model"] = model_facts(directory);
  if (fs::exists(directory / "tokenizer.json")) facts["tokenizer"] = tokenizer_facts(directory);
  if (const auto templates = text::read_chat_templates(directory))
    facts["template"] = template_facts(*templates);
  if (facts.size() == 1)
    throw UserError(
        "{}: expected config.json or tokenizer.json, got neither; is it a Hugging Face model directory?",
        arguments.directory);
  if (facts.contains("model") && facts.contains("tokenizer") &&
      facts["tokenizer"]["ids"].get<std::int64_t>() > facts["model"]["embedding_rows"].get<std::int64_t>())
    throw UserError("{}: the tokenizer has {} ids, but the embedding has {} rows; do they belong together?",
                    arguments.directory, facts["tokenizer"]["ids"].dump(),
                    facts["model"]["embedding_rows"].dump());
  if (arguments.output.json) {
    std::cout << facts.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (!arguments.output.quiet) {
    print_facts(facts);
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto arguments = std::make_shared<InspectArguments>();
  app.add_option("directory", arguments->directory, "Model directory, or one with tokenizer files only")
      ->required();
  add_output_flags(app, arguments->output);
  app.footer(
      "Weights are matched with config.json, name by name and shape by shape, but not read.\n\n"
      "Example:\n"
      "  routeopd inspect lab/teacher");
  app.callback([arguments] { run_inspect(*arguments); });
}

}  // namespace routeopd::app
