// Shapes: N states of a response, K columns of top-k, G ids gathered per state.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/vllm_answers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "routeopd/engine/remote/base64_array.h"
#include "routeopd/engine/remote/json_answer.h"
#include "routeopd/engine/remote/value_rows.h"

namespace routeopd::engine {
namespace {

// A key that is an id, "151935". The text is followed by its closing quote.
std::int32_t id_of_key(const char* key) {
  std::int64_t id = 0;
  const char* at = key;
  for (; *at >= '0' && *at <= '9' && at - key < 10; ++at) id = id * 10 + (*at - '0');
  if (at == key || *at != '"' || id > std::numeric_limits<std::int32_t>::max())
    throw BadAnswer(
        fmt::format("the key {} is not an id", std::string(key, static_cast<std::size_t>(at - key + 1))));
  return static_cast<std::int32_t>(id);
}

// [{"version": "7", "start": 0, "end": 12}, …]: the oldest of them.
std::optional<std::int64_t> oldest_version(JsonValue value) {
  std::optional<std::int64_t> oldest;
  if (is_null(value)) return oldest;
  for (auto element : value.get_array()) {
    bool named = false;
    for (auto field : element.get_object()) {
      if (field.unescaped_key().value() != "version") continue;
      keep_oldest(oldest, version_of_label(text_of(field.value(), "a version of weights")));
      named = true;
    }
    if (!named) throw BadAnswer("an entry of weight_versions has no version");
  }
  return oldest;
}

class VllmScoresReader {
 public:
  VllmScoresReader(const VllmScoring& asked, ReadAnswer& into)
      : asked_(asked), into_(into), values_(into.answer.values), rows_(asked.real_ids, asked.k) {}

  void read(JsonObject answer) {
    const auto first_value = values_.gathered_NG.size();
    const auto first_row = values_.logsumexp_N.size();
    for (auto field : answer) {
      const std::string_view key = field.unescaped_key();
      JsonValue value = field.value();
      if (key == "prompt_logprobs") {
        if (!is_null(value)) tokens(value);
      } else if (key == "prompt_token_id_logprobs") {
        if (!is_null(value)) per_position_ = text_of(value, "prompt_token_id_logprobs");
      } else if (key == "choices") {
        choices_();
        choices(value);
      }
    }
    if (!scores_.met()) throw BadAnswer("it has no prompt_logprobs");
    if (!choices_.met()) throw BadAnswer("it has no choices");
    if (asked_.ids_per_position) take_per_position(first_value, first_row);
    into_.answer.rows_B.push_back(count_);
    values_.columns = std::min(asked_.k, asked_.real_ids);
    values_.tokens_read += asked_.prompt_length + asked_.response_length;
    rows_.count(into_.counts);
  }

 private:
  // /v1/completions has the values of the prompt in its choice.
  void choices(JsonValue value) {
    std::int64_t number = 0;
    for (auto element : value.get_array()) {
      if (++number > 1) throw BadAnswer("it has several choices; expected one");
      for (auto field : element.get_object()) {
        const std::string_view key = field.unescaped_key();
        JsonValue part = field.value();
        if (key == "prompt_logprobs") {
          if (!is_null(part)) tokens(part);
        } else if (key == "weight_versions") {
          keep_oldest(into_.version, oldest_version(part));
        }
      }
    }
    if (number != 1) throw BadAnswer("it has no choice; expected one");
  }

  // One entry per token of prompt and response; that of token t is the distribution that predicts it. A null
  // where a response's token should be ends the rows.
  void tokens(JsonValue value) {
    scores_();
    bool ended = false;
    std::int64_t t = 0;
    for (auto element : value.get_array()) {
      JsonValue entry = element.value();
      const std::int64_t state = t - asked_.prompt_length;
      if (state >= asked_.response_length)
        throw BadAnswer(fmt::format("prompt_logprobs has more entries than tokens; expected {}",
                                    asked_.prompt_length + asked_.response_length));
      if (state >= 0 && !ended) {
        ended = is_null(entry);
        if (!ended) row(entry, state);
      }
      ++t;
    }
  }

  // {"17": {"logprob": -1.5, "rank": 1, "decoded_token": null}, …}: the best ids and the token that was read.
  // It comes first, and where it is not among the best, its rank says so, too.
  void row(JsonValue value, std::int64_t state) {
    rows_.begin(state);
    std::int32_t own = -1;
    for (auto field : value.get_object()) {
      const std::int32_t id = id_of_key(field.key().value().raw());
      double logprob = 0;
      std::int64_t rank = 0;
      bool has_value = false, ranked = false;
      for (auto part : field.value().get_object()) {
        const JsonKey key = part.key();
        if (key == "logprob") {
          if (std::exchange(has_value, true))
            throw BadAnswer(fmt::format("state {}: logprob is there twice", state));
          logprob = number_or_nan(part.value(), "logprob");
        } else if (key == "rank") {
          JsonValue sent = part.value();
          ranked = !is_null(sent);
          rank = ranked ? integer_of(sent, "rank") : 0;
        }
      }
      if (!has_value) throw BadAnswer(fmt::format("state {}: id {} has no logprob", state, id));
      // Where NaN is sent as minus infinity is, it has no rank.
      rows_.add(id, !ranked && logprob <= kSentinel ? kNotSent : rows_.log_probability(logprob));
      if (own < 0 || (asked_.top >= 0 && rank > asked_.top)) own = id;
    }
    if (own < 0) throw BadAnswer(fmt::format("state {}: no value is listed", state));
    const auto columns = static_cast<std::size_t>(asked_.gather_columns);
    if (asked_.ids_per_position) {
      values_.gathered_NG.resize(values_.gathered_NG.size() + columns, kNotSent);
      values_.known_NG.resize(values_.known_NG.size() + columns, 1);
    } else {
      rows_.append_gathered(asked_.gather_ids_NG.subspan(static_cast<std::size_t>(state) * columns, columns),
                            values_);
    }
    rows_.append_top(values_.top_ids_NK, values_.top_logits_NK);
    values_.logsumexp_N.push_back(rows_.partition());
    into_.answer.id_N.push_back(own);
    ++count_;
  }

  // An array of float32 [N, G] as numpy saves it.
  void take_per_position(std::size_t first_value, std::size_t first_row) {
    if (per_position_.empty()) throw BadAnswer("it has no prompt_token_id_logprobs");
    const auto columns = static_cast<std::size_t>(asked_.gather_columns);
    const std::vector<float> sent =
        read_base64_array(per_position_, asked_.response_length, asked_.gather_columns);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_) * columns; ++i) {
      if (asked_.gather_ids_NG[i] < 0) continue;
      const float value = rows_.log_probability(sent[i]);
      values_.gathered_NG[first_value + i] = value;
      if (std::isnan(value)) values_.logsumexp_N[first_row + i / columns] = kNotSent;
    }
  }

  const VllmScoring& asked_;
  ReadAnswer& into_;
  StateValues& values_;
  ValueRows rows_;
  Once scores_{"prompt_logprobs"}, choices_{"choices"};
  std::string_view per_position_;
  std::int64_t count_ = 0;
};

class VllmResponseReader {
 public:
  VllmResponseReader(const VllmWriting& asked, WrittenAnswer& into)
      : asked_(asked), into_(into), rollout_(into.rollout), rows_(asked.real_ids, asked.k) {}

  void read(JsonObject answer) {
    response_.sample = asked_.sample;
    response_.first_state = rollout_.states();
    for (auto field : answer) {
      if (field.unescaped_key().value() != "choices") continue;
      choices_();
      std::int64_t number = 0;
      for (auto element : field.value().get_array()) {
        if (++number > 1) throw BadAnswer("it has several choices; expected one");
        choice(element.get_object());
      }
      if (number != 1) throw BadAnswer("it has no choice; expected one");
    }
    if (!choices_.met()) throw BadAnswer("it has no choices");
    if (!tokens_.met() || !values_.met() || !finish_.met())
      throw BadAnswer("its choice lacks one of token_ids, logprobs and finish_reason");
    if (ids_.size() != static_cast<std::size_t>(response_.length))
      throw BadAnswer(fmt::format("it has {} ids and values for {}", ids_.size(), response_.length));
    const auto first = rollout_.id_N.begin() + response_.first_state;
    if (!std::equal(ids_.begin(), ids_.end(), first, rollout_.id_N.end()))
      throw BadAnswer("its token_ids are others than those of its values");
    if (response_.length < 1 || response_.length > asked_.max_new_tokens)
      throw BadAnswer(
          fmt::format("it has {} tokens; expected 1 to {}", response_.length, asked_.max_new_tokens));
    rollout_.responses_B.push_back(response_);
    rollout_.columns = std::min(asked_.k, asked_.real_ids);
    rows_.count(into_.counts);
  }

 private:
  void choice(JsonObject choice) {
    for (auto field : choice) {
      const std::string_view key = field.unescaped_key();
      JsonValue value = field.value();
      if (key == "token_ids") {
        tokens_();
        for (auto element : value.get_array()) ids_.push_back(id_of(element.value()));
      } else if (key == "finish_reason") {
        finish_();
        const std::string_view reason = text_of(value, "finish_reason");
        if (reason != "stop" && reason != "length")
          throw BadAnswer(fmt::format("it ended by {:?}; expected stop or length", reason));
        response_.finish = reason == "stop" ? Finish::kStop : Finish::kLength;
      } else if (key == "weight_versions") {
        keep_oldest(into_.version, oldest_version(value));
      } else if (key == "logprobs") {
        values_();
        for (auto part : value.get_object()) {
          if (part.unescaped_key().value() != "content") continue;
          for (auto element : part.value().get_array()) token(element.get_object());
        }
      }
    }
  }

  // {"token_id": 17, "logprob": -1.5, "rank": 2,
  //  "top_logprobs": [{"token_id": 4, "logprob": -0.2, "rank": 1}, …]}
  void token(JsonObject token) {
    rows_.begin(response_.length);
    std::int32_t id = -1;
    double logprob = std::numeric_limits<double>::quiet_NaN();
    bool ranked = false;
    for (auto field : token) {
      const JsonKey key = field.key();
      JsonValue value = field.value();
      if (key == "token_id") {
        id = id_of(value);
      } else if (key == "logprob") {
        logprob = number_or_nan(value, "logprob");
      } else if (key == "rank") {
        ranked = !is_null(value);
      } else if (key == "top_logprobs" && asked_.k > 0) {
        for (auto element : value.get_array()) listed(element.get_object());
      }
    }
    if (id < 0) throw BadAnswer(fmt::format("state {}: its value has no token_id", response_.length));
    // A token whose value is NaN has no rank, and -9999 in its place.
    const float value = ranked ? rows_.log_probability(logprob) : kNotSent;
    if (std::isnan(value)) rows_.mark_unusable();
    rollout_.id_N.push_back(id);
    rollout_.logprob_N.push_back(value);
    if (asked_.k > 0) {
      rows_.append_top(rollout_.top_ids_NK, rollout_.top_logits_NK);
      rollout_.logsumexp_N.push_back(rows_.partition());
    }
    ++response_.length;
  }

  void listed(JsonObject entry) {
    std::int32_t id = -1;
    double logprob = 0;
    bool has_value = false;
    for (auto field : entry) {
      const JsonKey key = field.key();
      if (key == "token_id") {
        id = id_of(field.value());
      } else if (key == "logprob") {
        logprob = number_or_nan(field.value(), "logprob");
        has_value = true;
      }
    }
    if (id < 0 || !has_value)
      throw BadAnswer(fmt::format("state {}: a value lacks its token_id or logprob", response_.length));
    rows_.add(id, rows_.log_probability(logprob));
  }

  const VllmWriting& asked_;
  WrittenAnswer& into_;
  Rollout& rollout_;
  ValueRows rows_;
  Response response_{};
  std::vector<std::int32_t> ids_;
  Once choices_{"choices"}, tokens_{"token_ids"}, values_{"logprobs"}, finish_{"finish_reason"};
};

}  // namespace

void read_vllm_scores(std::string body, const VllmScoring& asked, ReadAnswer& into) {
  VllmScoresReader reader(asked, into);
  read_json_answer(std::move(body), "vLLM", [&](JsonObject answer) { reader.read(answer); });
}

void read_vllm_response(std::string body, const VllmWriting& asked, WrittenAnswer& into) {
  VllmResponseReader reader(asked, into);
  read_json_answer(std::move(body), "vLLM", [&](JsonObject answer) { reader.read(answer); });
}

}  // namespace routeopd::engine
