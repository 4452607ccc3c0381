// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/prompts.h"

#include <algorithm>

#include "routeopd/formats/ordered_json.h"
#include "routeopd/serve/errors.h"

namespace routeopd::serve {
namespace {

// No token of a tokenizer in use stands for more bytes of text, normalization included: 64 MB of text for a
// prompt of 2,048 tokens are refused without being read.
constexpr std::int64_t kMostTokenBytes = 1024;

std::int64_t most_prompt_tokens(const ServedModel& model, const Limits& limits) {
  return std::min(limits.most_prompt_tokens, model.positions);
}

void check_length(std::int64_t tokens, const ServedModel& model, const Limits& limits, const char* param) {
  if (tokens == 0)
    throw ApiError(400, fmt::format("{}: expected at least one token, got none", param), param);
  if (tokens <= most_prompt_tokens(model, limits)) return;
  throw ApiError(400,
                 fmt::format("{}: expected at most {} tokens, which this server takes of the model's {} "
                             "positions, got {}; shorten the prompt",
                             param, most_prompt_tokens(model, limits), model.positions, tokens),
                 param);
}

const tokenizer::Tokenizer& tokenizer_for(const ServedModel& model, const char* param) {
  if (model.tokenizer == nullptr)
    throw ApiError(
        400,
        fmt::format("{}: expected ids, since the model's directory has no tokenizer.json, got text", param),
        param);
  return *model.tokenizer;
}

bool all_texts(const OrderedJson& list) {
  return std::all_of(list.begin(), list.end(), [](const OrderedJson& each) { return each.is_string(); });
}
bool all_lists(const OrderedJson& list) {
  return std::all_of(list.begin(), list.end(), [](const OrderedJson& each) { return each.is_array(); });
}
bool all_numbers(const OrderedJson& list) {
  return std::all_of(list.begin(), list.end(), [](const OrderedJson& each) { return each.is_number(); });
}

// Content that comes in parts is joined to one text, and none is an empty one, as vLLM does for templates
// that expect text.
void join_parts(OrderedJson& message) {
  if (!message.contains("content") || message["content"].is_null()) message["content"] = "";
  const auto content = message.find("content");
  if (!content->is_array()) return;
  std::string text;
  bool first = true;
  for (const OrderedJson& part : *content) {
    const OrderedJson* words = part.is_string() ? &part : nullptr;
    if (part.is_object() && part.value("type", OrderedJson("text")) == "text" && part.contains("text"))
      words = &part.at("text");
    if (words == nullptr || !words->is_string())
      throw ApiError(400, "messages: expected content of text alone, got a part of another type", "messages");
    if (!first) text += '\n';
    first = false;
    text += words->get_ref<const std::string&>();
  }
  *content = std::move(text);
}

// Clients send the arguments of tool calls as a text of JSON; templates expect the value.
void open_arguments(OrderedJson& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (OrderedJson& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    const auto arguments = call["function"].find("arguments");
    if (arguments == call["function"].end() || !arguments->is_string()) continue;
    const auto& text = arguments->get_ref<const std::string&>();
    OrderedJson value = OrderedJson::object();
    try {
      if (!text.empty()) value = formats::parse_ordered_json(text, "messages: arguments");
    } catch (const UserError& error) {
      throw ApiError(400, error.what(), "messages");
    }
    *arguments = std::move(value);
  }
}

void check_messages(const OrderedJson& messages) {
  if (!messages.is_array() || messages.empty())
    throw ApiError(400, "messages: expected a list of {\"role\", \"content\"}, got none", "messages");
  for (const OrderedJson& message : messages) {
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (!message.is_object() || role == message.end() || !role->is_string())
      throw ApiError(400, "messages: expected objects with a \"role\" that is a text, got another value",
                     "messages");
    const auto content = message.find("content");
    if (content != message.end() && !content->is_null() && !content->is_string() && !content->is_array())
      throw ApiError(400, fmt::format("messages: expected content of text, got {}", content->type_name()),
                     "messages");
  }
}

OrderedJson template_options(const Parameters& asked) {
  OrderedJson options = OrderedJson::object();
  if (!asked.template_options.is_null()) {
    if (!asked.template_options.is_object())
      throw ApiError(400, "chat_template_kwargs: expected an object", "chat_template_kwargs");
    options = asked.template_options;
  }
  options["add_generation_prompt"] = asked.add_generation_prompt;
  if (asked.continue_final_message) options["continue_final_message"] = true;
  if (asked.template_name) options["chat_template"] = *asked.template_name;
  for (const auto& [name, value] : {std::pair{"tools", &asked.tools}, {"documents", &asked.documents}}) {
    if (value->is_null()) continue;
    if (!value->is_array()) throw ApiError(400, fmt::format("{}: expected a list", name), name);
    if (value->empty()) continue;  // as if it had not been sent
    options[name] = *value;
  }
  return options;
}

}  // namespace

std::vector<std::int32_t> ids_of(const OrderedJson& list, const ServedModel& model, const char* param) {
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const OrderedJson& each : list) {
    if (!each.is_number_integer())
      throw ApiError(400, fmt::format("{}: expected ids, got {}", param, each.dump()), param);
    // An unsigned value beyond 2^63 turns negative.
    const auto id = each.get<std::int64_t>();
    if (id < 0 || id >= model.real_ids)
      throw ApiError(400, fmt::format("Token id {} is out of vocabulary", each.dump()), param);
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

std::vector<std::int32_t> encode_text(const std::string& text, bool add_special, const ServedModel& model,
                                      std::int64_t most_tokens, const char* param) {
  const tokenizer::Tokenizer& tokenizer = tokenizer_for(model, param);
  if (std::ssize(text) / kMostTokenBytes > most_tokens)
    throw ApiError(
        400,
        fmt::format("{}: {} bytes cannot be {} tokens; shorten the prompt", param, text.size(), most_tokens),
        param);
  try {
    return tokenizer.encode(text, add_special);
  } catch (const UserError& error) {
    throw ApiError(400, fmt::format("{}: {}", param, error.what()), param);
  }
}

std::vector<PromptInput> read_prompts(const Parameters& asked, const ServedModel& model,
                                      const Limits& limits) {
  const OrderedJson& prompt = asked.prompt;
  const std::int64_t most = most_prompt_tokens(model, limits);
  std::vector<PromptInput> prompts;
  const auto add_text = [&](const OrderedJson& words) {
    const auto& text = words.get_ref<const std::string&>();
    prompts.push_back({encode_text(text, asked.add_special_tokens, model, most, "prompt"), text});
  };
  if (prompt.is_string()) {
    add_text(prompt);
  } else if (prompt.is_array() && !prompt.empty() && all_numbers(prompt)) {
    prompts.push_back({ids_of(prompt, model, "prompt"), {}});
  } else if (prompt.is_array() && !prompt.empty() && (all_texts(prompt) || all_lists(prompt))) {
    if (std::ssize(prompt) > limits.most_prompts)
      throw ApiError(400,
                     fmt::format("prompt: expected at most {} prompts in one request, got {}",
                                 limits.most_prompts, prompt.size()),
                     "prompt");
    for (const OrderedJson& each : prompt) {
      if (each.is_string()) {
        add_text(each);
      } else {
        prompts.push_back({ids_of(each, model, "prompt"), {}});
      }
    }
  } else {
    throw ApiError(400, "prompt: expected a text, a list of ids, or a list of texts or of lists of ids",
                   "prompt");
  }
  for (const PromptInput& each : prompts) check_length(std::ssize(each.ids), model, limits, "prompt");
  return prompts;
}

PromptInput read_messages(const Parameters& asked, const ServedModel& model, const Limits& limits) {
  check_messages(asked.messages);
  if (model.templates == nullptr)
    throw ApiError(400, "messages: the model's directory has no chat template; use /v1/completions",
                   "messages");
  OrderedJson messages = asked.messages;
  for (OrderedJson& message : messages) {
    join_parts(message);
    open_arguments(message);
  }
  PromptInput prompt;
  const OrderedJson options = template_options(asked);
  try {
    prompt.text = model.templates->render(messages, options);
  } catch (const UserError& error) {
    throw ApiError(400, fmt::format("messages: {}", error.what()), "messages");
  }
  prompt.ids = encode_text(prompt.text, asked.add_special_tokens, model, most_prompt_tokens(model, limits),
                           "messages");
  check_length(std::ssize(prompt.ids), model, limits, "messages");
  return prompt;
}

}  // namespace routeopd::serve
