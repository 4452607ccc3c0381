// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/model_config.h"

#include <cmath>
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

const ArchitectureSpec& architecture_named(const Json& type) {
  std::string known;
  for (const ArchitectureSpec& spec : architectures()) {
    if (type == spec.model_type) return spec;
    known += (known.empty() ? "" : ", ") + spec.model_type;
  }
  throw UserError("model_type: expected one of {}, got {}", known, shown(type));
}

// sliding_window as transformers has it: 4096 where the key is missing, none where it is null.
Json sliding_window_of(const Json& file) {
  return file.contains("sliding_window") ? file["sliding_window"] : Json(4096);
}

void expect_full_attention(const Json& layer_types, std::int64_t layers) {
  if (!layer_types.is_array() || layer_types.size() != static_cast<std::size_t>(layers))
    throw UserError("layer_types: expected a list of {} names, got {}", layers, shown(layer_types));
  for (const Json& type : layer_types) {
    if (type != "full_attention")
      throw UserError("layer_types: expected full_attention, the only one supported, got {}", shown(type));
  }
}

// Windows by layer: those that layer_types names, else those from max_window_layers on where
// use_sliding_window says so. (Most Qwen files name a window that no layer uses.)
void refuse_windows_of_layers(const Json& file, std::int64_t layers) {
  const Json& types = value_or_null(file, "layer_types");
  if (!types.is_null()) return expect_full_attention(types, layers);
  const Json window = sliding_window_of(file);
  if (!flag_or(file, "use_sliding_window", false) || window.is_null()) return;
  const Json& first = value_or_null(file, "max_window_layers");
  if (first.is_null() || number_in(first, {0, 1 << 20}, true) < static_cast<double>(layers))
    throw UserError(
        "use_sliding_window: expected false or max_window_layers of at least {}, got a window of {} from "
        "layer {} on; sliding windows are not supported",
        layers, shown(window), first.is_null() ? "28" : shown(first));
}

// One window for all layers: it changes nothing where no sequence can be longer.
void refuse_window_of_all(const Json& file, const ModelConfig& config) {
  const Json& types = value_or_null(file, "layer_types");
  if (!types.is_null()) expect_full_attention(types, config.num_hidden_layers);
  const Json window = sliding_window_of(file);
  if (window.is_null()) return;
  const double size = naming("sliding_window", [&] { return number_in(window, {1, 1 << 30}, true); });
  if (size < static_cast<double>(config.max_position_embeddings))
    throw UserError(
        "sliding_window: expected null or at least max_position_embeddings {}, got {}{}; sliding windows "
        "are not supported, try max_position_embeddings of at most {}",
        config.max_position_embeddings, shown(window), file.contains("sliding_window") ? "" : " by default",
        shown(window));
}

// The activation, under one of its names.
void expect_activation(const Json& file, const char* key, const ArchitectureSpec& spec) {
  for (const std::string& name : spec.activation_names)
    if (value_or_null(file, key) == name) return;
  expect_only(file, key, spec.activation_names.front());
}

void refuse_unsupported(const Json& file, const ModelConfig& config) {
  const ArchitectureSpec& spec = config.architecture();
  expect_only(file, "architectures", Json::array({spec.class_name}));
  expect_activation(file, "hidden_act", spec);
  expect_activation(file, "hidden_activation", spec);  // Gemma's older key
  expect_only(file, "attention_dropout", 0.0);
  expect_only(file, "is_causal", true);
  expect_only(file, "use_bidirectional_attention", false);
  expect_none(file, "quantization_config");
  expect_none(file, "auto_map");  // code of the model's own
  if (spec.windows == WindowKeys::kEachLayer) refuse_windows_of_layers(file, config.num_hidden_layers);
  if (spec.windows == WindowKeys::kAllLayers) refuse_window_of_all(file, config);
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

// num_key_value_heads or head_dim where the file does not say; `null`: the key is there, without a value.
std::int64_t default_of(const ModelConfig& config, const std::string& name, bool null) {
  const ConfigDefaults& defaults = config.architecture().defaults;
  if (name == "num_key_value_heads")
    return null || defaults.num_key_value_heads == 0 ? config.num_attention_heads
                                                     : defaults.num_key_value_heads;
  if (!null && defaults.head_dim != 0) return defaults.head_dim;
  if (config.hidden_size % config.num_attention_heads != 0)
    throw UserError("head_dim: expected it, since {} heads do not divide hidden_size {}, got none",
                    config.num_attention_heads, config.hidden_size);
  return config.hidden_size / config.num_attention_heads;
}

// Whether some projection of the architecture has its bias by this flag; otherwise the flag is not read.
bool heeds(const ArchitectureSpec& spec, Bias flag) {
  return spec.qkv_bias == flag || spec.output_bias == flag || spec.mlp_bias == flag;
}

std::string dtype_of(const Json& file) {
  const Json& newer = value_or_null(file, "dtype");
  const Json& dtype = newer.is_null() ? value_or_null(file, "torch_dtype") : newer;
  return dtype.is_null() ? "" : shown(dtype);
}

}  // namespace

const ArchitectureSpec& ModelConfig::architecture() const {
  const ArchitectureSpec* const spec = find_architecture(model_type);
  ROUTEOPD_INVARIANT(spec != nullptr);
  return *spec;
}

bool ModelConfig::has(Bias bias) const {
  return bias == Bias::kAlways || (bias == Bias::kAttentionBias && attention_bias) ||
         (bias == Bias::kMlpBias && mlp_bias);
}

double ModelConfig::embedding_scale() const {
  return architecture().embedding_times_sqrt_hidden ? std::sqrt(static_cast<double>(hidden_size)) : 1;
}

ModelConfig model_config_of(const Json& file) {
  const ArchitectureSpec& spec = architecture_named(value_or_null(file, "model_type"));
  const ConfigDefaults& defaults = spec.defaults;
  ModelConfig config;
  config.model_type = spec.model_type;
  for (const Field<ModelConfig>& field : sizes()) {
    Json value = value_or_null(file, field.name.c_str());
    if (value.is_null() && (field.name == "num_key_value_heads" || field.name == "head_dim"))
      value = default_of(config, field.name, file.contains(field.name));
    set_field(config, sizes(), field.name, value);
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0)
    throw UserError("num_key_value_heads: expected a divisor of num_attention_heads {}, got {}",
                    config.num_attention_heads, config.num_key_value_heads);
  if (config.head_dim % 2 != 0)
    throw UserError("head_dim: expected an even number, for its halves are rotated, got {}", config.head_dim);
  refuse_unsupported(file, config);
  config.rms_norm_eps = defaults.rms_norm_eps;
  if (!value_or_null(file, "rms_norm_eps").is_null())
    config.rms_norm_eps =
        naming("rms_norm_eps", [&] { return number_in(file["rms_norm_eps"], {0, 1, true}); });
  config.rope = rope_parameters_of(file, config.max_position_embeddings, defaults.rope_theta);
  config.attention_bias = heeds(spec, Bias::kAttentionBias) && flag_or(file, "attention_bias", false);
  config.mlp_bias = heeds(spec, Bias::kMlpBias) && flag_or(file, "mlp_bias", false);
  config.tie_word_embeddings = flag_or(file, "tie_word_embeddings", defaults.tie_word_embeddings);
  config.dtype = dtype_of(file);
  config.eos_token_ids = stops_of(file, config.vocab_size);
  if (!file.contains("eos_token_id") && defaults.eos_token_id)
    config.eos_token_ids = stops_of({{"eos_token_id", *defaults.eos_token_id}}, config.vocab_size);
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
  const ArchitectureSpec& spec = config.architecture();
  Json stops;  // null, one id or a list, as transformers writes them
  if (config.eos_token_ids.size() == 1) stops = config.eos_token_ids.front();
  if (config.eos_token_ids.size() > 1) stops = config.eos_token_ids;
  Json json = {{"architectures", {spec.class_name}},
               {"model_type", config.model_type},
               {"dtype", "float32"},
               {"hidden_act", spec.activation_names.front()},
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
  if (heeds(spec, Bias::kAttentionBias)) json["attention_bias"] = config.attention_bias;
  if (heeds(spec, Bias::kMlpBias)) json["mlp_bias"] = config.mlp_bias;
  if (spec.windows != WindowKeys::kNone) json["sliding_window"] = nullptr;
  if (spec.windows == WindowKeys::kEachLayer) {
    json["use_sliding_window"] = false;
    json["layer_types"] =
        std::vector<std::string>(static_cast<std::size_t>(config.num_hidden_layers), "full_attention");
  }
  for (const Field<ModelConfig>& field : sizes()) json[field.name] = field.get(config);
  return json;
}

}  // namespace routeopd::formats
