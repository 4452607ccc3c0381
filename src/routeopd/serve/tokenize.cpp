// POST /tokenize and /detokenize: a server's own view of text and ids, as vLLM has them.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/fields.h"
#include "routeopd/serve/answer_json.h"
#include "routeopd/serve/errors.h"
#include "routeopd/serve/prompts.h"
#include "routeopd/serve/routes.h"

namespace routeopd::serve {
namespace {

struct TokenizeAsked : Parameters {
  bool return_token_strs = false;
};

const tokenizer::Tokenizer& tokenizer_of(const Service& service) {
  if (service.model().tokenizer == nullptr)
    throw ApiError(400, "the model's directory has no tokenizer.json: this server knows ids alone");
  return *service.model().tokenizer;
}

bool flag_in(const std::string& name, const OrderedJson& value) {
  if (!value.is_boolean())
    throw ApiError(400, fmt::format("{}: expected true or false, got {}", name, value.dump()), name);
  return value.get<bool>();
}

TokenizeAsked read_tokenize(std::string_view body) {
  OrderedJson json = read_body(body);
  TokenizeAsked asked;
  const std::vector<std::string> known = {"model",
                                          "prompt",
                                          "messages",
                                          "add_special_tokens",
                                          "return_token_strs",
                                          "add_generation_prompt",
                                          "continue_final_message",
                                          "chat_template",
                                          "chat_template_kwargs",
                                          "tools"};
  asked.add_special_tokens = !json.contains("messages");
  for (auto& [name, value] : json.items()) {
    if (value.is_null()) continue;
    if (name == "model" || name == "chat_template") {
      if (!value.is_string()) throw ApiError(400, fmt::format("{}: expected text", name), name);
      (name == "model" ? asked.model : asked.template_name) = value.get<std::string>();
    } else if (name == "prompt") {
      asked.prompt = std::move(value);
    } else if (name == "messages") {
      asked.messages = std::move(value);
    } else if (name == "tools") {
      asked.tools = std::move(value);
    } else if (name == "chat_template_kwargs") {
      asked.template_options = std::move(value);
    } else if (name == "add_special_tokens") {
      asked.add_special_tokens = flag_in(name, value);
    } else if (name == "return_token_strs") {
      asked.return_token_strs = flag_in(name, value);
    } else if (name == "add_generation_prompt") {
      asked.add_generation_prompt = flag_in(name, value);
    } else if (name == "continue_final_message") {
      asked.continue_final_message = flag_in(name, value);
    } else {
      throw ApiError(400,
                     fmt::format("{}: is not a parameter of this endpoint; did you mean {}?", name,
                                 nearest_name(name, known)),
                     name);
    }
  }
  if (asked.continue_final_message && !json.contains("add_generation_prompt"))
    asked.add_generation_prompt = false;
  if (asked.continue_final_message && asked.add_generation_prompt)
    throw ApiError(400, "continue_final_message: cannot be given together with add_generation_prompt = true",
                   "continue_final_message");
  if (asked.prompt.is_string() == asked.messages.is_array())
    throw ApiError(400, "prompt: expected either a prompt that is a text or a list of messages", "prompt");
  return asked;
}

}  // namespace

void answer_tokenize(Service& service, Call call) {
  const TokenizeAsked asked = read_tokenize(call.request.body);
  service.check_model(asked.model);
  const tokenizer::Tokenizer& tokenizer = tokenizer_of(service);
  constexpr std::size_t kLongest = 1 << 20;  // bytes: ids and names of a text take a hundred times as much
  if (asked.prompt.is_string() && asked.prompt.get_ref<const std::string&>().size() > kLongest)
    throw ApiError(400, fmt::format("prompt: expected at most {} bytes", kLongest), "prompt");
  Limits limits = service.limits();  // a text may be longer than a prompt, to see how long it is
  ServedModel model = service.model();
  model.positions = limits.most_prompt_tokens = Limits{}.most_prompt_tokens;
  const std::vector<std::int32_t> ids =
      asked.prompt.is_string() ? encode_text(asked.prompt.get_ref<const std::string&>(),
                                             asked.add_special_tokens, model, model.positions, "prompt")
                               : read_messages(asked, model, limits).ids;
  OrderedJson names;
  if (asked.return_token_strs) {
    names = OrderedJson::array();
    for (const std::int32_t id : ids) names.push_back(tokenizer.token_of(id));
  }
  service.send_json(call, {{"count", ids.size()},
                           {"max_model_len", service.model().positions},
                           {"tokens", ids},
                           {"token_strs", std::move(names)}});
}

void answer_detokenize(Service& service, Call call) {
  const OrderedJson body = read_body(call.request.body);
  for (const auto& [name, value] : body.items())
    if (name != "model" && name != "tokens")
      throw ApiError(400, fmt::format("{}: expected model and tokens alone", name), name);
  const auto model = body.find("model");
  if (model != body.end() && model->is_string()) service.check_model(model->get<std::string>());
  const auto tokens = body.find("tokens");
  if (tokens == body.end() || !tokens->is_array())
    throw ApiError(400, "tokens: expected a list of ids", "tokens");
  const std::vector<std::int32_t> ids = ids_of(*tokens, service.model(), "tokens");
  service.send_json(call, {{"prompt", tokenizer_of(service).decode(ids)}});
}

}  // namespace routeopd::serve
