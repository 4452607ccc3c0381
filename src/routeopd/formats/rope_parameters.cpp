// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/rope_parameters.h"

#include <algorithm>

#include "routeopd/formats/json_file.h"

namespace routeopd::formats {
namespace {

constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

double positive_of(const Json& object, const char* key, double high) {
  return naming(key, [&] { return number_in(value_or_null(object, key), {0, high, true}); });
}

// What each type reads besides theta. `type` is transformers 4's older name of rope_type.
std::vector<std::string> keys_of(const std::string& type) {
  std::vector<std::string> keys = {"rope_theta", "rope_type", "type", "partial_rotary_factor"};
  if (type == "linear" || type == "llama3") keys.emplace_back("factor");
  if (type == "llama3")
    keys.insert(keys.end(), {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  return keys;
}

std::string rope_type_of(const Json& parameters) {
  const Json& type = value_or_null(parameters, "rope_type");
  const Json& older = value_or_null(parameters, "type");
  if (!type.is_null() && !older.is_null() && type != older)
    throw UserError("type: expected {} as rope_type says, got {}", shown(type), shown(older));
  const Json& said = type.is_null() ? older : type;
  if (said.is_null()) return "default";
  for (const char* known : {"default", "linear", "llama3"}) {
    if (said == known) return known;
  }
  throw UserError("rope_type: expected default, linear or llama3, the only ones supported, got {}",
                  shown(said));
}

RopeParameters read_parameters(const Json& parameters, std::int64_t max_positions, double default_theta) {
  if (!parameters.is_object()) throw UserError("expected an object, got {}", shown(parameters));
  RopeParameters rope;
  rope.theta = default_theta;
  rope.type = rope_type_of(parameters);
  const std::vector<std::string> known = keys_of(rope.type);
  for (const auto& [key, value] : parameters.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw UserError("expected none but the keys of type {}, got {}; try taking it out", rope.type, key);
  }
  expect_only(parameters, "partial_rotary_factor", 1.0);
  if (!value_or_null(parameters, "rope_theta").is_null())
    rope.theta = positive_of(parameters, "rope_theta", kMaxTheta);
  if (rope.type == "default") return rope;
  rope.factor = positive_of(parameters, "factor", kMaxFactor);
  if (rope.type == "linear") return rope;
  rope.low_freq_factor = positive_of(parameters, "low_freq_factor", kMaxFactor);
  rope.high_freq_factor = positive_of(parameters, "high_freq_factor", kMaxFactor);
  if (rope.high_freq_factor <= rope.low_freq_factor)
    throw UserError("high_freq_factor: expected more than low_freq_factor {}, got {}", rope.low_freq_factor,
                    rope.high_freq_factor);
  rope.original_positions = value_or_null(parameters, "original_max_position_embeddings").is_null()
                                ? static_cast<double>(max_positions)
                                : positive_of(parameters, "original_max_position_embeddings", 1 << 30);
  return rope;
}

}  // namespace

RopeParameters rope_parameters_of(const Json& config, std::int64_t max_positions, double default_theta) {
  expect_only(config, "partial_rotary_factor", 1.0);
  // Where a file has both, transformers heeds rope_scaling.
  const Json& scaling = value_or_null(config, "rope_scaling");
  const char* const name = scaling.is_null() || scaling.empty() ? "rope_parameters" : "rope_scaling";
  const Json& parameters = value_or_null(config, name);
  const bool inside = parameters.is_object() && !value_or_null(parameters, "rope_theta").is_null();
  const bool outside = !value_or_null(config, "rope_theta").is_null();
  RopeParameters rope;
  rope.theta = default_theta;
  if (!parameters.is_null())
    rope = naming(name, [&] { return read_parameters(parameters, max_positions, default_theta); });
  // The one outside the dictionary wins over the one inside, as in transformers.
  if (rope.type == "llama3" && !value_or_null(config, "original_max_position_embeddings").is_null())
    rope.original_positions = positive_of(config, "original_max_position_embeddings", 1 << 30);
  if (!outside) return rope;
  const double theta = positive_of(config, "rope_theta", kMaxTheta);
  if (inside && theta != rope.theta)
    throw UserError("{}: rope_theta: expected {} as outside of it, got {}", name, theta, rope.theta);
  rope.theta = theta;
  return rope;
}

Json json_of(const RopeParameters& rope) {
  Json json = {{"rope_theta", rope.theta}, {"rope_type", rope.type}};
  if (rope.type != "default") json["factor"] = rope.factor;
  if (rope.type == "llama3") {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
    json["original_max_position_embeddings"] = static_cast<std::int64_t>(rope.original_positions);
  }
  return json;
}

}  // namespace routeopd::formats
