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

double positive_of(const Json& object, const char* key, double high) {
  try {
    return number_in(value_or_null(object, key), {0, high, true});
  } catch (const UserError& error) {
    throw UserError("{}: {}", key, error.what());
  }
}

void refuse_unsupported(const Json& config, std::int64_t layers) {
  expect_only(config, "architectures", Json::array({"Qwen3ForCausalLM"}));
  expect_only(config, "hidden_act", "silu");
  expect_only(config, "attention_bias", false);
  expect_only(config, "attention_dropout", 0.0);
  expect_only(config, "use_sliding_window", false);
  expect_only(config, "partial_rotary_factor", 1.0);
  expect_none(config, "rope_scaling");
  expect_none(config, "quantization_config");
  expect_none(config, "auto_map");  // code of the model's own
  const Json& types = value_or_null(config, "layer_types");
  if (types.is_null()) return;
  if (!types.is_array() || types.size() != static_cast<std::size_t>(layers))
    throw UserError("layer_types: expected a list of {} names, got {}", layers, shown(types));
  for (const Json& type : types) {
    if (type != "full_attention")
      throw UserError("layer_types: expected full_attention, the only one supported, got {}", shown(type));
  }
}

// transformers 4 writes rope_theta, transformers 5 rope_parameters {rope_theta, rope_type}.
double rope_theta_of(const Json& config) {
  constexpr double kHighest = 1e12;
  const Json& parameters = value_or_null(config, "rope_parameters");
  const bool top = !value_or_null(config, "rope_theta").is_null();
  if (parameters.is_null())
    return top ? positive_of(config, "rope_theta", kHighest) : ModelConfig().rope_theta;
  if (!parameters.is_object())
    throw UserError("rope_parameters: expected an object, got {}", shown(parameters));
  for (const auto& [key, value] : parameters.items()) {
    if (key == "rope_theta" || key == "rope_type") continue;
    if (key == "partial_rotary_factor" && value == 1.0) continue;
    throw UserError("rope_parameters: expected rope_theta and rope_type alone, got {}", key);
  }
  try {
    expect_only(parameters, "rope_type", "default");
    const double theta = positive_of(parameters, "rope_theta", kHighest);
    if (top && positive_of(config, "rope_theta", kHighest) != theta)
      throw UserError("rope_theta: expected {} as outside of it, got {}", shown(config["rope_theta"]), theta);
    return theta;
  } catch (const UserError& error) {
    throw UserError("rope_parameters: {}", error.what());
  }
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

ModelConfig config_of(const Json& file) {
  const Json& type = value_or_null(file, "model_type");
  if (type != "qwen3")
    throw UserError("model_type: expected qwen3, the only one supported, got {}", shown(type));
  ModelConfig config;
  for (const Field<ModelConfig>& field : sizes()) {
    Json value = value_or_null(file, field.name.c_str());
    if (value.is_null() && field.name == "num_key_value_heads") value = config.num_attention_heads;
    if (value.is_null() && field.name == "head_dim") {
      if (config.hidden_size % config.num_attention_heads != 0)
        throw UserError("head_dim: expected it, since {} heads do not divide hidden_size {}, got none",
                        config.num_attention_heads, config.hidden_size);
      value = config.hidden_size / config.num_attention_heads;
    }
    set_field(config, sizes(), field.name, value);
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0)
    throw UserError("num_key_value_heads: expected a divisor of num_attention_heads {}, got {}",
                    config.num_attention_heads, config.num_key_value_heads);
  if (config.head_dim % 2 != 0)
    throw UserError("head_dim: expected an even number, for its halves are rotated, got {}", config.head_dim);
  refuse_unsupported(file, config.num_hidden_layers);
  if (!value_or_null(file, "rms_norm_eps").is_null())
    config.rms_norm_eps = positive_of(file, "rms_norm_eps", 1);
  config.rope_theta = rope_theta_of(file);
  config.tie_word_embeddings = flag_or(file, "tie_word_embeddings", false);
  config.eos_token_ids = stops_of(file, config.vocab_size);
  return config;
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  const Json file = read_json_object(path, kMaxFile);
  ModelConfig config = naming(path.string(), [&] { return config_of(file); });
  const std::filesystem::path generation_path = directory / "generation_config.json";
  std::error_code unreadable;
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
  Json json = {{"architectures", {"Qwen3ForCausalLM"}},
               {"model_type", config.model_type},
               {"dtype", "float32"},
               {"hidden_act", "silu"},
               {"attention_bias", false},
               {"attention_dropout", 0.0},
               {"use_sliding_window", false},
               {"sliding_window", nullptr},
               {"layer_types", std::vector<std::string>(static_cast<std::size_t>(config.num_hidden_layers),
                                                        "full_attention")},
               {"rms_norm_eps", config.rms_norm_eps},
               // transformers 4 and most other readers know the first form, transformers 5 the second.
               {"rope_theta", config.rope_theta},
               {"rope_parameters", {{"rope_theta", config.rope_theta}, {"rope_type", "default"}}},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"eos_token_id", stops}};
  for (const Field<ModelConfig>& field : sizes()) json[field.name] = field.get(config);
  return json;
}

}  // namespace routeopd::formats
