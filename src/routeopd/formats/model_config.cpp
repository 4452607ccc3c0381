//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/model_config.h"

#include <limits>
#include <system_error>

#include "routeopd/formats/json_file.h"

namespace routeopd::formats {
namespace {

constexpr std::int64_t kMaxFile = 16 << 20;
constexpr std::size_t kMaxStops = 256;  // ids that end an answer; each is looked for at every token

// Upper limits far above any model there is, low enough that products of them fit 63 bits.
const Fields<ModelConfig>& sizes() {
  static const Fields<ModelConfig> fields = {
      number_field("vocab_size", &ModelConfig::vocab_size, "", {1, 1 << 24}),
      number_field("hidden_size", &ModelConfig::hidden_size, "", {1, 1 << 16}),
      number_field("intermediate_size", &ModelConfig::intermediate_size, "", {1, 1 << 20}),
      number_field("num_hidden_layers", &ModelConfig::num_hidden_layers, "", {1, 1024}),
      number_field("num_attention_heads", &ModelConfig::num_attention_heads, "", {1, 1024}),
      number_field("num_key_value_heads", &ModelConfig::num_key_value_heads, "", {1, 1024}),
      number_field("head_dim", &ModelConfig::head_dim, "", {2, 4096}),
      number_field("max_position_embeddings", &ModelConfig::max_position_embeddings, "", {1, 1 << 30}),
  };
  return fields;
}

// What transformers fills in for a key that is not there at all.
struct Family {
  const char* model_type;
  const char* architecture;
  std::int64_t kv_heads;  // 0: as many as query heads
  std::int64_t head_dim;  // 0: hidden_size / num_attention_heads
  Json eos;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {{"qwen2", "Qwen2ForCausalLM", 32, 0, nullptr},
                                          {"qwen3", "Qwen3ForCausalLM", 32, 128, nullptr},
                                          {"llama", "LlamaForCausalLM", 0, 0, 2}};
  return all;
}

const Family& family_of(const Json& type) {
  std::string known;
  for (const Family& family : families()) {
    if (type == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  throw UserError("model_type: expected one of {}, got {}", known, shown(type));
}

// Which layers look at a window alone: those that layer_types names, else those from max_window_layers on where
// use_sliding_window says so. (A window that no layer uses is written into most Qwen files.)
void refuse_windows(const Json& file, std::int64_t layers) {
  const Json& types = value_or_null(file, "layer_types");
  if (!types.is_null()) {
    if (!types.is_array() || types.size() != static_cast<std::size_t>(layers))
      throw UserError("layer_types: expected a list of {} names, got {}", layers, shown(types));
    for (const Json& type : types) {
      if (type != "full_attention")
        throw UserError("layer_types: expected full_attention, the only one supported, got {}", shown(type));
    }
    return;
  }
  const bool none =
      file.contains("sliding_window") && file["sliding_window"].is_null();  // left out, it is 4096
  if (!flag_or(file, "use_sliding_window", false) || none) return;
  const Json& first = value_or_null(file, "max_window_layers");
  if (first.is_null() || number_in(first, {0, 1 << 20}, true) < static_cast<double>(layers))
    throw UserError(
        "use_sliding_window: expected false or max_window_layers of at least {}, got a window of {} from "
        "layer {} on; sliding windows are not supported",
        layers, file.contains("sliding_window") ? shown(file["sliding_window"]) : "4096",
        first.is_null() ? "28" : shown(first));
}

void refuse_unsupported(const Json& file, const Family& family, std::int64_t layers) {
  expect_only(file, "architectures", Json::array({family.architecture}));
  if (value_or_null(file, "hidden_act") != "swish")  // another name of the same
    expect_only(file, "hidden_act", "silu");
  expect_only(file, "attention_dropout", 0.0);
  expect_only(file, "is_causal", true);
  expect_none(file, "quantization_config");
  expect_none(file, "auto_map");  // code of the model's own
  if (family.model_type != std::string_view("llama")) refuse_windows(file, layers);
}

std::vector<std::int32_t> stops_of(const Json& object, std::int64_t vocab_size) {
  const Json& value = value_or_null(object, "eos_token_id");
  if (value.is_null()) return {};
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.size() > kMaxStops)
    throw UserError("eos_token_id: expected at most {} ids, got {}", kMaxStops, list.size());
  std::vector<std::int32_t> ids;
  for (const Json& id : list) {
    try {
      ids.push_back(static_cast<std::int32_t>(number_in(id, {0, static_cast<double>(vocab_size - 1)}, true)));
    } catch (const UserError& error) {
      throw UserError("eos_token_id: {}", error.what());
    }
  }
  return ids;
}

std::int64_t default_of(const Family& family, const ModelConfig& config, const std::string& name, bool null) {
  if (name == "num_key_value_heads")
    return null || family.kv_heads == 0 ? config.num_attention_heads : family.kv_heads;
  if (!null && family.head_dim != 0) return family.head_dim;
  if (config.hidden_size % config.num_attention_heads != 0)
    throw UserError("head_dim: expected it, since {} heads do not divide hidden_size {}, got none",
                    config.num_attention_heads, config.hidden_size);
  return config.hidden_size / config.num_attention_heads;
}

std::string dtype_of(const Json& file) {
  const Json& newer = value_or_null(file, "dtype");
  const Json& dtype = newer.is_null() ? value_or_null(file, "torch_dtype") : newer;
  return dtype.is_null() ? "" : shown(dtype);
}

}  // namespace

ModelConfig model_config_of(const Json& file) {
  const Family& family = family_of(value_or_null(file, "model_type"));
  ModelConfig config;
  config.model_type = family.model_type;
  for (const Field<ModelConfig>& field : sizes()) {
    Json value = value_or_null(file, field.name.c_str());
    if (value.is_null() && (field.name == "num_key_value_heads" || field.name == "head_dim"))
      value = default_of(family, config, field.name, file.contains(field.name));
    set_field(config, sizes(), field.name, value);
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0)
    throw UserError("num_key_value_heads: expected a divisor of num_attention_heads {}, got {}",
                    config.num_attention_heads, config.num_key_value_heads);
  if (config.head_dim % 2 != 0)
    throw UserError("head_dim: expected an even number, for its halves are rotated, got {}", config.head_dim);
  refuse_unsupported(file, family, config.num_hidden_layers);
  if (!value_or_null(file, "rms_norm_eps").is_null())
    config.rms_norm_eps =
        naming("rms_norm_eps", [&] { return number_in(file["rms_norm_eps"], {0, 1, true}); });
  config.rope = rope_parameters_of(file, config.max_position_embeddings);
  // Qwen2 has these biases whatever attention_bias says, and none on the way out.
  const bool all_biases = config.model_type != "qwen2" && flag_or(file, "attention_bias", false);
  config.qkv_bias = all_biases || config.model_type == "qwen2";
  config.output_bias = all_biases;
  config.mlp_bias = config.model_type == "llama" && flag_or(file, "mlp_bias", false);
  config.tie_word_embeddings = flag_or(file, "tie_word_embeddings", false);
  config.dtype = dtype_of(file);
  config.eos_token_ids = stops_of(file, config.vocab_size);
  if (!file.contains("eos_token_id") && !family.eos.is_null())
    config.eos_token_ids = stops_of({{"eos_token_id", family.eos}}, config.vocab_size);
  return config;
}

ModelConfig read_model_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable))
    throw UserError(
        "{}: expected config.json in this directory, got none; is it a model, and is the path right?",
        directory.string());
  const Json file = read_json_object(path, kMaxFile);
  ModelConfig config = naming(path.string(), [&] { return model_config_of(file); });
  const std::filesystem::path generation_path = directory / "generation_config.json";
  if (!std::filesystem::exists(generation_path, unreadable)) return config;
  const Json generation = read_json_object(generation_path, kMaxFile);
  std::vector<std::int32_t> stops =
      naming(generation_path.string(), [&] { return stops_of(generation, config.vocab_size); });
  if (!stops.empty()) config.eos_token_ids = std::move(stops);
  return config;
}

Json json_of(const ModelConfig& config) {
  Json stops;  // null, one id or a list, as transformers writes them
  if (config.eos_token_ids.size() == 1) stops = config.eos_token_ids.front();
  if (config.eos_token_ids.size() > 1) stops = config.eos_token_ids;
  Json json = {{"architectures", {family_of(config.model_type).architecture}},
               {"model_type", config.model_type},
               {"dtype", "float32"},
               {"hidden_act", "silu"},
               {"attention_dropout", 0.0},
               {"rms_norm_eps", config.rms_norm_eps},
               // transformers 4 and most other readers know the first form, transformers 5 the second.
               {"rope_theta", config.rope.theta},
               {"rope_parameters", json_of(config.rope)},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"eos_token_id", stops}};
  if (config.rope.type != "default") {
    json["rope_scaling"] = json_of(config.rope);
    json["rope_scaling"].erase("rope_theta");
  }
  if (config.model_type != "qwen2") json["attention_bias"] = config.output_bias;
  if (config.model_type == "llama") {
    json["mlp_bias"] = config.mlp_bias;
  } else {
    json["use_sliding_window"] = false;
    json["sliding_window"] = nullptr;
    json["layer_types"] =
        std::vector<std::string>(static_cast<std::size_t>(config.num_hidden_layers), "full_attention");
  }
  for (const Field<ModelConfig>& field : sizes()) json[field.name] = field.get(config);
  return json;
}

}  // namespace routeopd::formats
