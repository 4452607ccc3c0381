// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/parameters.h"

#include <algorithm>
#include <limits>

#include "routeopd/base/fields.h"
#include "routeopd/base/utf8.h"
#include "routeopd/formats/ordered_json.h"
#include "routeopd/serve/errors.h"
#include "routeopd/serve/request_id.h"

namespace routeopd::serve {
namespace {

constexpr std::size_t kMostStops = 64;
constexpr std::size_t kLongestStop = 1024;  // bytes
constexpr double kInt32 = std::numeric_limits<std::int32_t>::max();

using ParameterField = Field<Parameters>;

template <class Value>
ParameterField optional_number(std::string name, std::optional<Value> Parameters::* member, Range range) {
  return {std::move(name),
          "",
          [member, range](Parameters& parameters, const Json& value) {
            parameters.*member = static_cast<Value>(number_in(value, range, std::is_integral_v<Value>));
          },
          {}};
}

template <class Set>
ParameterField made_by(std::string name, Set set) {
  return {std::move(name), "", std::move(set), {}};
}

ParameterField word(std::string name, std::optional<std::string> Parameters::* member) {
  return made_by(std::move(name), [member](Parameters& parameters, const Json& value) {
    if (!value.is_string()) throw UserError("expected text, got {}", shown(value));
    parameters.*member = value.get<std::string>();
  });
}

ParameterField flag(std::string name, bool Parameters::* member) {
  return switch_field<Parameters>(std::move(name), member, "");
}

ParameterField text_flag(std::string name, bool TextRules::* member) {
  return made_by(std::move(name), [member](Parameters& parameters, const Json& value) {
    if (!value.is_boolean()) throw UserError("expected true or false, got {}", shown(value));
    parameters.text.*member = value.get<bool>();
  });
}

// Any value of the types given: it says who asks or how to keep books, and changes no answer.
ParameterField without_effect(std::string name, std::vector<Json::value_t> types) {
  return made_by(std::move(name), [types = std::move(types)](Parameters&, const Json& value) {
    if (std::find(types.begin(), types.end(), value.type()) == types.end())
      throw UserError("expected {}, got {}", Json(types.front()).type_name(), shown(value));
  });
}

// Accepted where it asks for nothing: null, or one of `neutral`.
ParameterField neutral_alone(std::string name, std::vector<Json> neutral) {
  return made_by(std::move(name), [neutral = std::move(neutral)](Parameters&, const Json& value) {
    if (std::find(neutral.begin(), neutral.end(), value) != neutral.end()) return;
    if (neutral.empty()) throw UserError("is not supported by this server; leave it out");
    throw UserError("is not supported by this server; leave it out or give {}", neutral.front().dump());
  });
}

std::uint64_t seed_of(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer()) return static_cast<std::uint64_t>(value.get<std::int64_t>());
  throw UserError("expected an integer of 64 bits, got {}", shown(value));
}

std::vector<std::string> stops_in(const Json& value) {
  std::vector<std::string> stops;
  if (value.is_string()) {
    stops.push_back(value.get<std::string>());
  } else if (value.is_array() && value.size() <= kMostStops) {
    for (const Json& each : value) {
      if (!each.is_string()) throw UserError("expected a list of texts, got {} in it", each.type_name());
      stops.push_back(each.get<std::string>());
    }
  } else {
    throw UserError("expected a text or a list of at most {} texts, got {}", kMostStops, value.type_name());
  }
  std::int64_t bytes = 0;
  for (const std::string& stop : stops) {
    bytes += std::ssize(stop);
    if (bytes > kMostStopBytes) throw UserError("expected at most {} bytes in all", kMostStopBytes);
    if (stop.empty() || stop.size() > kLongestStop)
      throw UserError("expected texts of 1 to {} bytes, got one of {}", kLongestStop, stop.size());
  }
  return stops;
}

void set_stream_options(Parameters& parameters, const Json& value) {
  if (!value.is_object()) throw UserError("expected an object, got {}", value.type_name());
  for (const auto& [name, each] : value.items()) {
    if (!each.is_boolean() && !each.is_null())
      throw UserError("{}: expected true or false, got {}", name, shown(each));
    const bool on = each.is_boolean() && each.get<bool>();
    if (name == "include_usage") {
      parameters.include_usage = on;
    } else if (name == "continuous_usage_stats") {
      parameters.usage_in_pieces = on;
    } else {
      throw UserError("expected include_usage and continuous_usage_stats alone, got {}", name);
    }
  }
  parameters.has_stream_options = !value.empty();
}

const Fields<Parameters>& common_fields() {
  static const Fields<Parameters> fields = [] {
    using Type = Json::value_t;
    const Range top{-1, kInt32};
    Fields<Parameters> all = {
        word("model", &Parameters::model),
        number_field("n", &Parameters::n, "", {1, kInt32}),
        optional_number("temperature", &Parameters::temperature, {0, 2}),
        optional_number("top_p", &Parameters::top_p, {0, 1, /*low_open=*/true}),
        made_by("top_k",
                [](Parameters& parameters, const Json& value) {
                  // -1 is vLLM's other spelling of "all".
                  parameters.top_k =
                      std::max(0, static_cast<std::int32_t>(number_in(value, {-1, kInt32}, true)));
                }),
        optional_number("max_tokens", &Parameters::max_tokens, {0, kInt32}),
        made_by("seed", [](Parameters& parameters, const Json& value) { parameters.seed = seed_of(value); }),
        made_by("stop",
                [](Parameters& parameters, const Json& value) { parameters.text.stop = stops_in(value); }),
        flag("ignore_eos", &Parameters::ignore_eos),
        text_flag("include_stop_str_in_output", &TextRules::include_stop),
        text_flag("skip_special_tokens", &TextRules::skip_special),
        flag("add_special_tokens", &Parameters::add_special_tokens),
        optional_number("prompt_logprobs", &Parameters::prompt_logprobs, top),
        flag("return_token_ids", &Parameters::return_token_ids),
        flag("return_tokens_as_token_ids", &Parameters::as_ids),
        flag("stream", &Parameters::stream),
        made_by("stream_options", set_stream_options),
        made_by("request_id",
                [](Parameters& parameters, const Json& value) {
                  if (!value.is_string() || !is_request_id(value.get_ref<const std::string&>()))
                    throw UserError("expected at most {} letters, digits and -_.:, got {}", kLongestRequestId,
                                    shown(value));
                  parameters.request_id = value.get<std::string>();
                }),
        without_effect("user", {Type::string}),
        without_effect("session_id", {Type::string}),
        without_effect("metadata", {Type::object}),
    };
    const std::vector<std::pair<std::string, std::vector<Json>>> neutral = {
        {"frequency_penalty", {0}},
        {"presence_penalty", {0}},
        {"repetition_penalty", {1}},
        {"min_p", {0}},
        {"logit_bias", {Json::object()}},
        {"min_tokens", {0}},
        {"stop_token_ids", {Json::array()}},
        {"allowed_token_ids", {}},
        {"bad_words", {Json::array()}},
        {"logprob_token_ids", {}},
        {"use_beam_search", {false}},
        {"length_penalty", {1}},
        {"early_stopping", {false}},
        {"spaces_between_special_tokens", {true}},
        {"truncate_prompt_tokens", {}},
        {"truncation_side", {}},
        {"response_format", {Json{{"type", "text"}}}},
        {"structured_outputs", {}},
        {"priority", {0}},
        {"cache_salt", {}},
        {"kv_transfer_params", {}},
        {"ec_transfer_params", {}},
        {"vllm_xargs", {Json::object()}},
        {"repetition_detection", {}},
        {"thinking_token_budget", {-1}},
        {"stream_interval", {1}},
        {"watermarking", {false}},
        {"routed_experts_prompt_start", {0}},
        {"return_token_offsets", {false}},
        {"return_mm_kwargs", {true}},
        {"service_tier", {"auto", "default"}},
        {"store", {false}},
    };
    for (const auto& [name, values] : neutral) all.push_back(neutral_alone(name, values));
    return all;
  }();
  return fields;
}

const Fields<Parameters>& completion_fields() {
  static const Fields<Parameters> fields = [] {
    Fields<Parameters> all = common_fields();
    all.push_back(flag("echo", &Parameters::echo));
    all.push_back(optional_number("logprobs", &Parameters::logprobs, {-1, kInt32}));
    all.push_back(optional_number("best_of", &Parameters::best_of, {1, kInt32}));
    all.push_back(neutral_alone("suffix", {""}));
    all.push_back(neutral_alone("prompt_embeds", {}));
    return all;
  }();
  return fields;
}

const Fields<Parameters>& chat_fields() {
  static const Fields<Parameters> fields = [] {
    Fields<Parameters> all = common_fields();
    all.push_back(flag("logprobs", &Parameters::chat_logprobs));
    all.push_back(optional_number("top_logprobs", &Parameters::top_logprobs, {-1, kInt32}));
    all.push_back(optional_number("max_completion_tokens", &Parameters::max_completion_tokens, {0, kInt32}));
    all.push_back(flag("add_generation_prompt", &Parameters::add_generation_prompt));
    all.push_back(flag("continue_final_message", &Parameters::continue_final_message));
    all.push_back(flag("return_prompt_text", &Parameters::return_prompt_text));
    all.push_back(word("chat_template", &Parameters::template_name));
    // Tools are described to the model; what it writes is handed over as it is.
    all.push_back(neutral_alone("tool_choice", {"none", "auto"}));
    all.push_back(neutral_alone("parallel_tool_calls", {true, false}));
    const std::vector<std::pair<std::string, std::vector<Json>>> neutral = {
        {"echo", {false}},
        {"functions", {}},
        {"function_call", {}},
        {"reasoning_effort", {}},
        {"include_reasoning", {true}},
        {"modalities", {Json::array({"text"})}},
        {"audio", {}},
        {"prediction", {}},
        {"verbosity", {}},
        {"web_search_options", {}},
        {"media_io_kwargs", {Json::object()}},
        {"mm_processor_kwargs", {Json::object()}},
    };
    for (const auto& [name, values] : neutral) all.push_back(neutral_alone(name, values));
    return all;
  }();
  return fields;
}

// Values that keep the order of their keys, and may be long.
using Values = std::vector<std::pair<const char*, OrderedJson Parameters::*>>;
const Values& values_of(Endpoint endpoint) {
  static const Values completions = {{"prompt", &Parameters::prompt}};
  static const Values chat = {{"messages", &Parameters::messages},
                              {"tools", &Parameters::tools},
                              {"documents", &Parameters::documents},
                              {"chat_template_kwargs", &Parameters::template_options}};
  return endpoint == Endpoint::kChat ? chat : completions;
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw ApiError(400, fmt::format("{}: {}", name, why), name);
}

void set_parameter(Parameters& parameters, const Fields<Parameters>& fields, Endpoint endpoint,
                   const std::string& name, OrderedJson& value) {
  if (value.is_null()) return;  // as if it were not there
  for (const auto& [known, member] : values_of(endpoint)) {
    if (name == known) {
      parameters.*member = std::move(value);
      return;
    }
  }
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const auto& each) { return each.name == name; });
  try {
    field->set(parameters, Json(value));
  } catch (const UserError& error) {
    refuse(name, error.what());
  }
}

void check_together(Parameters& parameters, Endpoint endpoint) {
  if (parameters.best_of && *parameters.best_of != parameters.n)
    refuse("best_of", fmt::format("expected n ({}), which alone is supported, got {}", parameters.n,
                                  *parameters.best_of));
  if (parameters.has_stream_options && !parameters.stream)
    refuse("stream_options", "can only be given with stream = true");
  if (parameters.stream && parameters.prompt_logprobs && *parameters.prompt_logprobs != 0)
    refuse("prompt_logprobs", "are not available with stream = true");
  if (parameters.stream && parameters.echo && parameters.logprobs)
    refuse("echo", "expected it without logprobs or without stream: a prompt's values are known at the end");
  if (endpoint == Endpoint::kChat) {
    if (parameters.top_logprobs.value_or(0) != 0 && !parameters.chat_logprobs)
      refuse("top_logprobs", "expected logprobs = true beside it");
    if (parameters.chat_logprobs) parameters.logprobs = parameters.top_logprobs.value_or(0);
    if (parameters.max_completion_tokens) parameters.max_tokens = parameters.max_completion_tokens;
  }
}

}  // namespace

OrderedJson read_body(std::string_view body) {
  OrderedJson json;
  try {
    if (!is_utf8(body)) throw UserError("body: expected JSON in UTF-8, got other bytes");
    json = formats::parse_ordered_json(body, "body");
  } catch (const UserError& error) {
    throw ApiError(400, error.what());
  }
  if (!json.is_object())
    throw ApiError(400, fmt::format("body: expected a JSON object, got {}", json.type_name()));
  return json;
}

std::vector<std::string> known_parameters(Endpoint endpoint) {
  std::vector<std::string> names;
  for (const auto& [name, member] : values_of(endpoint)) names.emplace_back(name);
  for (const std::string& name : names_of(endpoint == Endpoint::kChat ? chat_fields() : completion_fields()))
    names.push_back(name);
  return names;
}

Parameters read_parameters(std::string_view body, Endpoint endpoint) {
  OrderedJson json = read_body(body);
  const Fields<Parameters>& fields = endpoint == Endpoint::kChat ? chat_fields() : completion_fields();
  const std::vector<std::string> known = known_parameters(endpoint);
  Parameters parameters;
  parameters.add_special_tokens = endpoint != Endpoint::kChat;  // a chat template writes its own
  for (auto& [name, value] : json.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse(name,
             fmt::format("is not a parameter of this endpoint; did you mean {}?", nearest_name(name, known)));
    set_parameter(parameters, fields, endpoint, name, value);
  }
  if (endpoint == Endpoint::kChat && json.value("continue_final_message", OrderedJson()) == true) {
    // As in vLLM, asking for both is an error, and the default gives way.
    if (json.value("add_generation_prompt", OrderedJson()) == true)
      refuse("continue_final_message", "cannot be given together with add_generation_prompt = true");
    parameters.add_generation_prompt = false;
  }
  check_together(parameters, endpoint);
  return parameters;
}

}  // namespace routeopd::serve
