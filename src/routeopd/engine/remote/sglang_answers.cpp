// {"text": …, "output_ids": […], "meta_info": {"finish_reason": …, "weight_version": "7",
//  "input_token_logprobs": [[null, id, null], [-1.5, id, null], …],
//  "input_top_logprobs": [null, [[-0.2, id, null], …], …], "input_token_ids_logprobs": the same, …}}
// The first entry of each list is that of the first token asked for, which nothing predicts.
//
// Shapes: N states of a response, K columns of top-k, G ids gathered per state.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/sglang_answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "routeopd/engine/remote/json_answer.h"
#include "routeopd/engine/remote/value_rows.h"

namespace routeopd::engine {
namespace {

struct Entry {
  double logprob = std::numeric_limits<double>::quiet_NaN();
  std::int32_t id = -1;
};

// [-1.5, 17, null]: the last is the token's text, which is not asked for.
Entry entry_of(JsonValue value) {
  Entry entry;
  int parts = 0;
  for (auto part : value.get_array()) {
    if (parts == 0) entry.logprob = number_or_nan(part.value(), "a log-probability");
    if (parts == 1) entry.id = id_of(part.value());
    ++parts;
  }
  if (parts != 3)
    throw BadAnswer(fmt::format("a value has {} parts; expected log-probability, id, text", parts));
  return entry;
}

void add_all(ValueRows& rows, JsonValue list) {
  for (auto element : list.get_array()) {
    const Entry entry = entry_of(element.value());
    rows.add(entry.id, rows.log_probability(entry.logprob));
  }
}

std::string_view finish_of(JsonValue value) {
  std::string_view type;
  if (is_null(value)) return type;
  for (auto field : value.get_object())
    if (field.unescaped_key().value() == "type") type = text_of(field.value(), "the type of finish_reason");
  return type;
}

class SglangScoresReader {
 public:
  SglangScoresReader(const SglangScoring& asked, ReadAnswer& into)
      : asked_(asked), into_(into), top_(asked.real_ids, asked.k), ids_(asked.real_ids, 0) {}

  void read(JsonObject answer) {
    for (auto field : answer) {
      if (field.unescaped_key().value() != "meta_info") continue;
      about_();
      for (auto part : field.value().get_object()) meta(part.unescaped_key(), part.value());
    }
    if (!about_.met()) throw BadAnswer("it has no meta_info");
    if (!tokens_.met()) throw BadAnswer("it has no input_token_logprobs");
    if (asked_.top > 0 && !tops_.met()) throw BadAnswer("it has no input_top_logprobs");
    if (asked_.ids_of_request && !looked_up_.met()) throw BadAnswer("it has no input_token_ids_logprobs");
    take_over();
  }

 private:
  void meta(std::string_view key, JsonValue value) {
    if (key == "weight_version") {
      keep_oldest(into_.version,
                  is_null(value) ? kForeignVersion : version_of_label(text_of(value, "weight_version")));
    } else if (key == "finish_reason") {
      if (finish_of(value) == "abort") throw BadAnswer("the request was aborted");
    } else if (key == "input_token_logprobs") {
      tokens_();
      each_state(value, [&](JsonValue entry, std::int64_t) { read_ids_.push_back(entry_of(entry).id); });
    } else if (key == "input_top_logprobs" && asked_.top > 0) {
      tops_();
      each_state(value, [&](JsonValue list, std::int64_t state) {
        top_.begin(state);
        add_all(top_, list);
        if (!asked_.ids_of_request) top_.append_gathered(ids_at(state), values_);
        top_.append_top(values_.top_ids_NK, values_.top_logits_NK);
        top_partition_.push_back(top_.partition());
      });
    } else if (key == "input_token_ids_logprobs" && asked_.ids_of_request) {
      looked_up_();
      each_state(value, [&](JsonValue list, std::int64_t state) {
        ids_.begin(state);
        add_all(ids_, list);
        ids_.append_gathered(ids_at(state), values_);
        ids_partition_.push_back(ids_.partition());
      });
    }
  }

  // Calls `row` for each state that has a value; a null where a state should be ends the rows.
  template <class Row>
  void each_state(JsonValue list, const Row& row) const {
    std::int64_t state = -1;
    bool ended = false;
    for (auto element : list.get_array()) {
      JsonValue entry = element.value();
      if (state >= asked_.response_length)
        throw BadAnswer(
            fmt::format("a list has more entries than tokens; expected {}", asked_.response_length + 1));
      if (state >= 0 && !ended) {
        ended = is_null(entry);
        if (!ended) row(entry, state);
      }
      ++state;
    }
  }

  std::span<const std::int32_t> ids_at(std::int64_t state) const {
    const auto columns = static_cast<std::size_t>(asked_.gather_columns);
    return asked_.gather_ids_NG.subspan(static_cast<std::size_t>(state) * columns, columns);
  }

  // States that every list has are the rows.
  void take_over() {
    std::size_t rows = read_ids_.size();
    if (asked_.top > 0) rows = std::min(rows, top_partition_.size());
    if (asked_.ids_of_request) rows = std::min(rows, ids_partition_.size());
    if (asked_.top == 0 && !asked_.ids_of_request)  // nothing was listed in which ids could be looked up
      for (std::size_t n = 0; n < rows; ++n) {
        top_.begin(static_cast<std::int64_t>(n));
        top_.append_gathered(ids_at(static_cast<std::int64_t>(n)), values_);
      }
    StateValues& all = into_.answer.values;
    all.columns = std::min(asked_.k, asked_.real_ids);
    const auto append = [rows](auto& to, const auto& from, std::int64_t width) {
      to.insert(to.end(), from.begin(), from.begin() + static_cast<std::int64_t>(rows) * width);
    };
    append(into_.answer.id_N, read_ids_, 1);
    append(all.top_ids_NK, values_.top_ids_NK, all.columns);
    append(all.top_logits_NK, values_.top_logits_NK, all.columns);
    append(all.gathered_NG, values_.gathered_NG, asked_.gather_columns);
    append(all.known_NG, values_.known_NG, asked_.gather_columns);
    for (std::size_t n = 0; n < rows; ++n)
      all.logsumexp_N.push_back((asked_.top > 0 ? top_partition_[n] : 0) +
                                (asked_.ids_of_request ? ids_partition_[n] : 0));
    into_.answer.rows_B.push_back(static_cast<std::int64_t>(rows));
    top_.count(into_.counts);
    ids_.count(into_.counts);
  }

  const SglangScoring& asked_;
  ReadAnswer& into_;
  StateValues values_;  // of this response
  std::vector<std::int32_t> read_ids_;
  std::vector<float> top_partition_, ids_partition_;
  ValueRows top_, ids_;
  Once about_{"meta_info"}, tokens_{"input_token_logprobs"}, tops_{"input_top_logprobs"},
      looked_up_{"input_token_ids_logprobs"};
};

class SglangResponseReader {
 public:
  SglangResponseReader(const SglangWriting& asked, WrittenAnswer& into)
      : asked_(asked), into_(into), rollout_(into.rollout), rows_(asked.real_ids, asked.k) {}

  void read(JsonObject answer) {
    for (auto field : answer) {
      const std::string_view key = field.unescaped_key();
      if (key == "output_ids") {
        ids_();
        for (auto element : field.value().get_array()) written_.push_back(id_of(element.value()));
      } else if (key == "meta_info") {
        about_();
        for (auto part : field.value().get_object()) meta(part.unescaped_key(), part.value());
      }
    }
    if (!ids_.met() || !about_.met() || !tokens_.met() || !finish_.met() || (asked_.k > 0 && !tops_.met()))
      throw BadAnswer(
          "it lacks one of output_ids, output_token_logprobs, output_top_logprobs, finish_reason");
    if (own_ids_ != written_) throw BadAnswer("its output_ids are others than those of its values");
    const std::int64_t length = std::ssize(written_);
    if (length < 1 || length > asked_.max_new_tokens)
      throw BadAnswer(fmt::format("it has {} tokens; expected 1 to {}", length, asked_.max_new_tokens));
    if (asked_.k > 0 && std::ssize(partition_) != length)
      throw BadAnswer(fmt::format("it has {} tokens and the best ids of {}", length, partition_.size()));
    for (std::size_t n = 0; n < written_.size(); ++n)
      if (asked_.k > 0) rollout_.logsumexp_N.push_back(std::isnan(own_values_[n]) ? kNotSent : partition_[n]);
    rollout_.responses_B.push_back(
        {.sample = asked_.sample, .first_state = rollout_.states(), .length = length, .finish = ended_});
    rollout_.id_N.insert(rollout_.id_N.end(), written_.begin(), written_.end());
    rollout_.logprob_N.insert(rollout_.logprob_N.end(), own_values_.begin(), own_values_.end());
    rollout_.columns = std::min(asked_.k, asked_.real_ids);
    rows_.count(into_.counts);
  }

 private:
  void meta(std::string_view key, JsonValue value) {
    if (key == "weight_version") {
      keep_oldest(into_.version,
                  is_null(value) ? kForeignVersion : version_of_label(text_of(value, "weight_version")));
    } else if (key == "finish_reason") {
      finish_();
      const std::string_view reason = finish_of(value);
      if (reason != "stop" && reason != "length")
        throw BadAnswer(fmt::format("it ended by {:?}; expected stop or length", reason));
      ended_ = reason == "stop" ? Finish::kStop : Finish::kLength;
    } else if (key == "output_token_logprobs") {
      tokens_();
      for (auto element : value.get_array()) {
        const Entry entry = entry_of(element.value());
        own_ids_.push_back(entry.id);
        own_values_.push_back(rows_.log_probability(entry.logprob));
      }
    } else if (key == "output_top_logprobs" && asked_.k > 0) {
      tops_();
      for (auto element : value.get_array()) {
        rows_.begin(std::ssize(partition_));
        JsonValue list = element.value();
        if (is_null(list)) throw BadAnswer(fmt::format("state {}: it has no best ids", partition_.size()));
        add_all(rows_, list);
        rows_.append_top(rollout_.top_ids_NK, rollout_.top_logits_NK);
        partition_.push_back(rows_.partition());
      }
    }
  }

  const SglangWriting& asked_;
  WrittenAnswer& into_;
  Rollout& rollout_;
  ValueRows rows_;
  Finish ended_ = Finish::kLength;
  std::vector<std::int32_t> written_, own_ids_;
  std::vector<float> own_values_, partition_;
  Once about_{"meta_info"}, ids_{"output_ids"}, tokens_{"output_token_logprobs"},
      tops_{"output_top_logprobs"}, finish_{"finish_reason"};
};

}  // namespace

void read_sglang_scores(std::string body, const SglangScoring& asked, ReadAnswer& into) {
  SglangScoresReader reader(asked, into);
  read_json_answer(std::move(body), "SGLang", [&](JsonObject answer) { reader.read(answer); });
}

void read_sglang_response(std::string body, const SglangWriting& asked, WrittenAnswer& into) {
  SglangResponseReader reader(asked, into);
  read_json_answer(std::move(body), "SGLang", [&](JsonObject answer) { reader.read(answer); });
}

}  // namespace routeopd::engine
